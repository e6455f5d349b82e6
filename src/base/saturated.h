// Converts untrusted numbers to integers and durations without overflow: a value out of range
// becomes the nearest limit, and NaN becomes 0.
#pragma once

#include <concepts>
#include <limits>

#include "base/clock.h"

namespace gpuyard {

// Drops the fraction.
template <std::integral Integer>
constexpr Integer saturated_cast(double value) {
  using Limits = std::numeric_limits<Integer>;
  // The largest integer may have no exact double, and the nearest one would overflow.
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  return value == value ? static_cast<Integer>(value) : 0;
}

constexpr Duration duration_from_seconds(double seconds) {
  return Duration(saturated_cast<Duration::rep>(seconds * 1e9));
}

}  // namespace gpuyard
