// Resolves a host's name to its addresses within a deadline, whatever the name service does.
// Thread: worker; blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "io/http/endpoint.h"

namespace gpuyard::http {

// The most look-ups at a time in the process: four for each sink that there may be, or one for each
// host that a view of many asks at once. Each is a thread that cannot be interrupted. One more is
// refused.
inline constexpr std::size_t kMaxLookups = 64;

// Returns at least one address, in the order in which to try them. Errc::timed_out, or unavailable.
Result<std::vector<Endpoint>> resolve(const std::string& host, std::uint16_t port,
                                      TimePoint deadline);

// Asks a name service; may block for any time.
using Lookup =
    std::function<Result<std::vector<Endpoint>>(const std::string& host, std::uint16_t port)>;
// The same with another name service.
Result<std::vector<Endpoint>> resolve_with(const Lookup&, const std::string& host,
                                           std::uint16_t port, TimePoint deadline);

}  // namespace gpuyard::http
