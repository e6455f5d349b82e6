#include "device/gpu_metrics.h"

#include <fmt/format.h>

namespace gpuyard {
namespace {

template <class T>
std::optional<T> value_of(const Sample& sample, Metric metric, std::int64_t divisor = 1) {
  const std::int64_t* number = sample.number(metric);
  if (number == nullptr) return std::nullopt;
  return static_cast<T>(static_cast<T>(*number) / static_cast<T>(divisor));
}

std::optional<double> percent(std::optional<double> part, std::optional<double> whole) {
  if (!part || !whole || *whole <= 0) return std::nullopt;
  return *part / *whole * 100.0;
}

template <class T>
std::string shown(const std::optional<T>& value, fmt::string_view format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

std::optional<double> gigabytes(std::optional<std::uint64_t> bytes) {
  return bytes ? std::optional(static_cast<double>(*bytes) / 1e9) : std::nullopt;
}

// What draws on a screen may be idle for good.
std::optional<bool> computes(const Sample& sample) {
  const std::int64_t* processes = sample.number(Metric::processes_compute);
  return processes != nullptr ? std::optional(*processes > 0) : std::nullopt;
}

}  // namespace

std::optional<double> GpuMetrics::memory_percent() const {
  return percent(memory_used_bytes, memory_total_bytes);
}

std::optional<double> GpuMetrics::power_percent() const {
  return percent(power_watts, power_limit_watts);
}

std::string GpuMetrics::display_line() const {
  return fmt::format("GPU {}: {}°C, {}% util, {} GB / {} GB", device_id,
                     shown(temperature_celsius, "{:.0f}"), shown(utilization_percent, "{:.0f}"),
                     shown(gigabytes(memory_used_bytes), "{:.1f}"),
                     shown(gigabytes(memory_total_bytes), "{:.1f}"));
}

GpuMetrics metrics_of(const DeviceState& device) {
  constexpr std::int64_t kMilli = 1000;
  const Sample& sample = device.sample;
  return {device.info.index,
          device.info.name,
          value_of<double>(sample, Metric::temperature_core),
          value_of<double>(sample, Metric::utilization_gpu),
          value_of<std::uint64_t>(sample, Metric::memory_used),
          value_of<std::uint64_t>(sample, Metric::memory_total),
          value_of<double>(sample, Metric::power_draw, kMilli),
          value_of<double>(sample, Metric::power_limit, kMilli),
          computes(sample)};
}

}  // namespace gpuyard
