// Spans of simulated time, as people write them.
#pragma once

#include <chrono>
#include <string_view>

#include "base/result.h"

namespace gpuyard::sim {

inline constexpr std::chrono::hours kLongestTime{24 * 7};

// "500ms", "10s", "1.5m", "2h"; a bare number is seconds. In whole steps of the physics, from 0 to
// kLongestTime; Errc::invalid says so.
Result<std::chrono::milliseconds> parse_time(std::string_view);

}  // namespace gpuyard::sim
