/// @file
/// The small view of a GPU, for monitoring scripts and training hooks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gpuyard/export.h"

namespace gpuyard {
inline namespace v0 {

/// One GPU at one moment. A value that cannot be read is empty, never 0.
struct GpuMetrics {
  std::uint32_t device_id = 0;                      ///< the GPU's index on the node, from 0
  std::string name;                                 ///< product name
  std::optional<double> temperature_celsius;        ///< of the core
  std::optional<double> utilization_percent;        ///< 0 to 100
  std::optional<std::uint64_t> memory_used_bytes;   ///< of all processes, and the driver's reserve
  std::optional<std::uint64_t> memory_total_bytes;  ///< installed
  std::optional<double> power_watts;                ///< drawn
  std::optional<double> power_limit_watts;          ///< enforced
  /// Whether the GPU is in use: a Monitor says whether it has compute processes, where the driver
  /// lists them. Empty: not known.
  std::optional<bool> in_use = {};

  /// Used of total; empty where a part is missing or the total is 0.
  GPUYARD_API std::optional<double> memory_percent() const;
  /// Drawn of the limit; empty where a part is missing or the limit is 0.
  GPUYARD_API std::optional<double> power_percent() const;

  /// "GPU 0: 45°C, 80% util, 12.3 GB / 80.0 GB", GB = 1e9 bytes; "-" stands for a missing value.
  GPUYARD_API std::string display_line() const;

  /// Equal when every field is.
  friend bool operator==(const GpuMetrics&, const GpuMetrics&) = default;
};

}  // namespace v0
}  // namespace gpuyard
