// From a host's name to its addresses, within a deadline, whatever the name service does. Blocks:
// no thread of the loop's asks it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "http/endpoint.h"

namespace gpuyard::http {

// In the order in which they are to be tried; at least one. Errc::timed_out, or unavailable.
Result<std::vector<Endpoint>> resolve(const std::string& host, std::uint16_t port,
                                      TimePoint deadline);

}  // namespace gpuyard::http
