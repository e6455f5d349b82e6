// The lease that somebody means by its id or the beginning of it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "lease/leases.h"

namespace gpuyard::api {

inline constexpr std::size_t kShortestLeaseId = 4;

// One whose id begins so, if no other does; where several do, the only one that is not over.
// Errors: not_found, conflict, which names them.
Result<std::string> lease_named(const lease::Leases&, std::string_view name);

}  // namespace gpuyard::api
