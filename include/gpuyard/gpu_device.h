/// @file
/// A GPU as `/api/gpu/devices` shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpuyard {
inline namespace v0 {

/// One GPU, read afresh for each request. A value that cannot be read is empty, never 0 and never
/// old.
struct GPUDevice {
  std::uint32_t index = 0;                          ///< on the node, from 0
  std::optional<std::string> name;                  ///< product name
  std::optional<std::int64_t> total_memory_mb;      ///< installed, MiB, rounded down
  std::optional<std::int64_t> free_memory_mb;       ///< unallocated, MiB, rounded down
  std::optional<std::int64_t> used_memory_mb;       ///< total less free, MiB, rounded down
  std::optional<std::int64_t> utilization_percent;  ///< 0 to 100
  std::optional<std::int64_t> temperature_c;        ///< of the core, degrees Celsius
  /// False when the GPU cannot be opened, named, or its memory read in time; then it has no
  /// readings.
  bool is_available = false;
  std::optional<std::string> error_message;  ///< why it is not available

  /// Equal when every field is.
  friend bool operator==(const GPUDevice&, const GPUDevice&) = default;
};

}  // namespace v0
}  // namespace gpuyard
