#include "protocol/events.h"

#include "base/text.h"
#include "device/catalog.h"

namespace gpuyard::protocol {
namespace {

std::optional<double> watts_of(const Sample& sample, Metric metric) {
  const std::int64_t* milliwatts = sample.number(metric);
  if (milliwatts == nullptr) return std::nullopt;
  return static_cast<double>(*milliwatts) /
         static_cast<double>(unit_info(Unit::milliwatts).json_divisor);
}

GpuSummary summary_of(const DeviceState& device) {
  const Sample& sample = device.sample;
  return {device.info.index,
          device.info.uuid,
          device.condition,
          device.health.verdict,
          number_of(sample, Metric::utilization_gpu),
          number_of(sample, Metric::temperature_core),
          watts_of(sample, Metric::power_draw),
          number_of(sample, Metric::clock_sm),
          number_of(sample, Metric::memory_used),
          number_of(sample, Metric::memory_total)};
}

}  // namespace

SnapshotSummary summary_of(const gpuyard::Snapshot& snapshot) {
  SnapshotSummary out;
  out.simulated = snapshot.driver.info.simulated;
  out.generation = snapshot.generation;
  out.taken_at = to_rfc3339(snapshot.wall);
  out.driver_initialised = snapshot.driver.initialised;
  if (!snapshot.driver.why.empty()) out.driver_error = snapshot.driver.why;
  for (const DeviceState& device : snapshot.devices) out.devices.push_back(summary_of(device));
  return out;
}

std::optional<EventId> parse_event_id(std::string_view text) {
  const std::size_t dash = text.rfind('-');
  if (dash == text.npos || dash == 0) return std::nullopt;
  const auto sequence = number_in<std::uint64_t>(text.substr(dash + 1));
  if (!sequence) return std::nullopt;
  return EventId{std::string(text.substr(0, dash)), *sequence};
}

}  // namespace gpuyard::protocol
