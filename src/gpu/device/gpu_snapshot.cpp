#include "device/gpu_snapshot.h"

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

}  // namespace gpuyard
