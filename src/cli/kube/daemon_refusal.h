// What the agent does about a report that the daemon refuses.
#pragma once

#include "base/clock.h"
#include "base/result.h"

namespace gpuyard::cli::kube {

// A daemon that does not have a route, or does not permit it, is asked again after this time.
inline constexpr Duration kRefusedInterval = std::chrono::minutes(5);

// Returns whether the same request would meet the same error until somebody changes the node.
inline bool is_lasting(const Error& error) {
  return error.code == Errc::not_found || error.code == Errc::denied ||
         error.code == Errc::unsupported;
}

}  // namespace gpuyard::cli::kube
