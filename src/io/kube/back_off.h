// How long to wait before the next request to an API server that did not serve the last one.
#pragma once

#include <chrono>
#include <optional>

#include "base/clock.h"

namespace gpuyard::kube {

inline constexpr Duration kMinBackOff = std::chrono::seconds(1);
inline constexpr Duration kMaxBackOff = std::chrono::minutes(1);
// The longest wait that a server can ask for: one that asks for years must not silence a node.
inline constexpr Duration kMaxRetryAfter = std::chrono::minutes(5);

// The wait after that many failures in a row. It doubles, between kMinBackOff and kMaxBackOff.
// `random` (0 to 1) spreads it over a factor of two, so that many nodes do not come back at the
// same moment. `retry_after`, if the server has sent one, is a lower bound, and is spread as well.
Duration back_off(unsigned failures, std::optional<Duration> retry_after, double random);

}  // namespace gpuyard::kube
