/// @file
/// Whether a GPU is well, with the reasons.
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
  healthy,    ///< everything that is looked at is known, and good
  degraded,   ///< works, but should be looked at
  unhealthy,  ///< should not be given work
};

/// The enumerator's own name, "degraded". Lives as long as the library.
GPUYARD_API std::string_view name_of(Health);

/// At which core temperatures a GPU stops being healthy. At a threshold it still is what it was.
struct HealthThresholds {
  std::int64_t temperature_degraded = 75;   ///< degraded above so many degrees Celsius
  std::int64_t temperature_unhealthy = 85;  ///< unhealthy above so many degrees Celsius

  /// Equal when both are.
  friend bool operator==(const HealthThresholds&, const HealthThresholds&) = default;
};

/// A verdict and what led to it.
struct HealthReport {
  /// Empty: not known. Nothing bad is known, but something that is looked at could not be read: the
  /// temperature, or the ECC counter of a GPU that has one. Neither an alarm nor "healthy".
  std::optional<Health> verdict;
  /// Why it is not healthy, or what is not known. Words for people.
  std::vector<std::string> reasons;

  /// Equal when both are.
  friend bool operator==(const HealthReport&, const HealthReport&) = default;
};

}  // namespace v0
}  // namespace gpuyard
