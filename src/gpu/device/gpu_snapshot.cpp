#include "gpu/device/gpu_snapshot.h"

#include <array>
#include <ostream>

#include <fmt/format.h>

#include "base/json_reader.h"
#include "base/json_writer.h"

namespace gpuyard {
namespace {

template <class T>
std::optional<T> number_of(const std::int64_t* number) {
  return number != nullptr ? std::optional(static_cast<T>(*number)) : std::nullopt;
}

Reading reading_or_unread(const Sample& sample, Metric metric) {
  const Reading* reading = sample.find(metric);
  return reading != nullptr ? *reading : Reading{metric, 0, {}, {}};
}

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
std::string format_optional(const std::optional<T>& value, fmt::string_view format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

std::optional<double> gigabytes(std::optional<std::uint64_t> bytes) {
  return bytes ? std::optional(static_cast<double>(*bytes) / 1e9) : std::nullopt;
}

// Tells whether the GPU has compute processes, if known; a process that draws on a screen may be
// idle for ever.
std::optional<bool> is_computing(const Sample& sample) {
  const std::int64_t* processes = sample.number(Metric::processes_compute);
  return processes != nullptr ? std::optional(*processes > 0) : std::nullopt;
}

constexpr std::array kGpuDeviceMetrics = {Metric::memory_total, Metric::memory_free,
                                          Metric::memory_used, Metric::utilization_gpu,
                                          Metric::temperature_core};

// Returns why the whole GPU counts as unavailable: it cannot be opened or named, the deadline
// passed, or its memory cannot be read although this kind of GPU reports it.
std::optional<std::string> unavailable_reason(const DeviceState& device) {
  if (device.info.fault) return describe(*device.info.fault);
  for (const Metric metric : kGpuDeviceMetrics) {
    const Reading* reading = device.sample.find(metric);
    const Missing never_read;
    const Missing* missing = reading != nullptr ? reading->missing() : &never_read;
    if (missing == nullptr || missing->reason == MissingReason::not_supported) continue;
    const bool late = missing->reason == MissingReason::timed_out;
    if (late || metric == Metric::memory_total) return describe(*missing);
  }
  return std::nullopt;
}

}  // namespace

Reading uncorrectable_errors(const Sample& sample) {
  Reading aggregate = reading_or_unread(sample, Metric::ecc_uncorrected_aggregate);
  const Missing* missing = aggregate.missing();
  if (missing == nullptr || missing->reason != MissingReason::not_supported) return aggregate;
  return reading_or_unread(sample, Metric::ecc_uncorrected_volatile);
}

std::optional<GpuSnapshot> gpu_snapshot_of(const DeviceState& device) {
  const Sample& sample = device.sample;
  const auto* total = sample.number(Metric::memory_total);
  const auto* used = sample.number(Metric::memory_used);
  const auto* temperature = sample.number(Metric::temperature_core);
  const bool answers = device.condition == DeviceCondition::responsive;
  if (!answers || total == nullptr || used == nullptr || temperature == nullptr) {
    return std::nullopt;
  }
  return GpuSnapshot{device.info.index,
                     static_cast<std::uint64_t>(*total),
                     static_cast<std::uint64_t>(*used),
                     *temperature,
                     number_of<std::uint32_t>(sample.number(Metric::utilization_gpu)),
                     number_of<std::uint64_t>(uncorrectable_errors(sample).number())};
}

std::vector<GpuSnapshot> gpu_snapshots_of(const Snapshot& snapshot) {
  std::vector<GpuSnapshot> gpus;
  for (const DeviceState& device : snapshot.devices) {
    if (auto gpu = gpu_snapshot_of(device)) gpus.push_back(*gpu);
  }
  return gpus;
}

std::string GpuSnapshot::to_json() const {
  return json::to_json(*this);
}

Result<GpuSnapshot> GpuSnapshot::from_json(std::string_view text) {
  return json::from_json<GpuSnapshot>(text);
}

std::string v0::to_string(const GpuSnapshot& gpu) {
  const auto shown = [](const auto& value) { return value ? std::to_string(*value) : "-"; };
  return fmt::format("GPU {}: {} C, {} % util, {} of {} B used, {} uncorrectable ECC errors",
                     gpu.id, gpu.temperature_celsius, shown(gpu.utilisation_percent),
                     gpu.memory_used, gpu.memory_total, shown(gpu.ecc_errors_uncorrected));
}

std::ostream& v0::operator<<(std::ostream& out, const GpuSnapshot& gpu) {
  return out << to_string(gpu);
}

std::optional<double> GpuMetrics::memory_percent() const {
  return percent(memory_used_bytes, memory_total_bytes);
}

std::optional<double> GpuMetrics::power_percent() const {
  return percent(power_watts, power_limit_watts);
}

std::string GpuMetrics::display_line() const {
  return fmt::format("GPU {}: {}°C, {}% util, {} GB / {} GB", device_id,
                     format_optional(temperature_celsius, "{:.0f}"),
                     format_optional(utilization_percent, "{:.0f}"),
                     format_optional(gigabytes(memory_used_bytes), "{:.1f}"),
                     format_optional(gigabytes(memory_total_bytes), "{:.1f}"));
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
          is_computing(sample)};
}

GPUDevice gpu_device_of(const DeviceState& device) {
  constexpr std::int64_t kMebibyte = std::int64_t{1024} * 1024;
  GPUDevice out;
  out.index = device.info.index;
  if (!device.info.name.empty()) out.name = device.info.name;
  out.error_message = unavailable_reason(device);
  out.is_available = !out.error_message;
  if (!out.is_available) return out;
  const auto value = [&](Metric metric, std::int64_t divisor = 1) {
    return value_of<std::int64_t>(device.sample, metric, divisor);
  };
  out.total_memory_mb = value(Metric::memory_total, kMebibyte);
  out.free_memory_mb = value(Metric::memory_free, kMebibyte);
  out.used_memory_mb = value(Metric::memory_used, kMebibyte);
  out.utilization_percent = value(Metric::utilization_gpu);
  out.temperature_c = value(Metric::temperature_core);
  return out;
}

}  // namespace gpuyard
