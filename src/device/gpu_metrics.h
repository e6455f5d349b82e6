// The small view of a GPU that monitoring scripts and training hooks want.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "device/snapshot.h"

namespace gpuyard {

// What cannot be read is empty, never 0.
struct GpuMetrics {
  std::uint32_t device_id = 0;  // NVML index
  std::string name;
  std::optional<double> temperature_celsius;
  std::optional<double> utilization_percent;
  std::optional<std::uint64_t> memory_used_bytes;  // of all processes, and the driver's reserve
  std::optional<std::uint64_t> memory_total_bytes;
  std::optional<double> power_watts;
  std::optional<double> power_limit_watts;

  // Derived; empty where a part is missing or the whole is 0.
  std::optional<double> memory_percent() const;
  std::optional<double> power_percent() const;

  // "GPU 0: 45°C, 80% util, 12.3 GB / 80.0 GB", GB = 1e9 bytes; "-" for what is missing.
  std::string display_line() const;

  friend bool operator==(const GpuMetrics&, const GpuMetrics&) = default;
};

GpuMetrics metrics_of(const DeviceState&);

}  // namespace gpuyard
