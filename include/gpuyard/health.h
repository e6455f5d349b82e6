/// @file
/// Whether a GPU is healthy, with the reasons.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuyard/export.h"

namespace gpuyard {
inline namespace v0 {

/// The verdict on a GPU, from good to bad.
enum class Health : std::uint8_t {
  healthy,    ///< every checked value is known, and good
  degraded,   ///< works, but needs attention
  unhealthy,  ///< should not be given work
};

/// The enumerator's own name, "degraded". Lives as long as the library.
GPUYARD_API std::string_view name_of(Health);

/// The core temperatures above which a GPU is not healthy. A temperature equal to a threshold does
/// not exceed it.
struct HealthThresholds {
  std::int64_t temperature_degraded = 75;   ///< degraded above this, degrees Celsius
  std::int64_t temperature_unhealthy = 85;  ///< unhealthy above this, degrees Celsius

  /// Equal when both are.
  friend bool operator==(const HealthThresholds&, const HealthThresholds&) = default;
};

/// A verdict and what led to it.
struct HealthReport {
  /// Empty: not known. No bad value is known, but a checked one could not be read: the temperature,
  /// or the ECC counter of a GPU that has one. This is neither an alarm nor "healthy".
  std::optional<Health> verdict;
  /// Why it is not healthy, or what is not known. Words for people.
  std::vector<std::string> reasons;

  /// Equal when both are.
  friend bool operator==(const HealthReport&, const HealthReport&) = default;
};

}  // namespace v0
}  // namespace gpuyard
