// Conversions of numbers from outside to whole numbers and lengths of time. None can overflow: what
// does not fit becomes the nearest value that does, and what is not a number becomes 0.
#pragma once

#include <cmath>
#include <concepts>
#include <limits>

#include "base/clock.h"

namespace gpuyard {

// Drops the fraction.
template <std::integral Integer>
constexpr Integer whole_of(double value) {
  using Limits = std::numeric_limits<Integer>;
  // The greatest integer may have no double of its own, and the next one is too great.
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  return value == value ? static_cast<Integer>(value) : 0;
}

constexpr Duration length_of_seconds(double seconds) {
  return Duration(whole_of<Duration::rep>(seconds * 1e9));
}

}  // namespace gpuyard
