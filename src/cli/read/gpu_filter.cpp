#include "cli/read/gpu_filter.h"

#include "base/record.h"
#include "cli/read/query_fields.h"
#include "gpu/device/catalog.h"

namespace gpuyard::cli {
namespace {

using protocol::Device;

FilterValue number_of(const Device& device, Metric metric, double unit = 1) {
  const auto* value = device.readings.number(metric);
  return value ? FilterValue(static_cast<double>(*value) / unit) : FilterValue();
}

FilterValue memory_of(const Device& device) {
  const auto* used = device.readings.number(Metric::memory_used);
  const auto* total = device.readings.number(Metric::memory_total);
  if (!used || !total || *total <= 0) return {};
  return 100 * static_cast<double>(*used) / static_cast<double>(*total);
}

// "" for a GPU without a lease.
FilterValue user_of(const Device& device, const protocol::Leases* leases) {
  if (leases == nullptr) return {};
  const protocol::Lease* const lease = lease_of(*leases, device.uuid);
  return lease != nullptr ? lease->user.value_or(std::to_string(lease->uid)) : std::string();
}

FilterValue why_of(const Device& device) {
  if (device.bottleneck) return device.bottleneck->brief;
  return device.condition == DeviceCondition::responsive ? FilterValue()
                                                         : device.why.value_or("not responding");
}

}  // namespace

const protocol::Lease* lease_of(const protocol::Leases& leases, std::string_view uuid) {
  for (const protocol::Lease& lease : leases.leases) {
    for (const protocol::LeasedGpu& gpu : lease.gpus) {
      if (gpu.uuid == uuid) return &lease;
    }
  }
  return nullptr;
}

std::vector<FilterValue> filter_values(const Device& device, const protocol::Leases* leases) {
  constexpr double kWatt = 1000;  // milliwatts
  return {static_cast<double>(device.index),
          device.name,
          number_of(device, Metric::utilization_gpu),
          memory_of(device),
          number_of(device, Metric::temperature_core),
          number_of(device, Metric::power_draw, kWatt),
          number_of(device, Metric::clock_sm),
          user_of(device, leases),
          why_of(device),
          device.health ? FilterValue(std::string(enum_name(*device.health))) : FilterValue()};
}

ProbeSet probes_of_filter() {
  const auto fields = parse_fields({"index", "name", "utilization.gpu", "memory.used",
                                    "memory.total", "temperature.gpu", "power.draw", "clocks.sm"});
  return fields ? probes_of_fields(*fields) : ProbeSet::all();
}

}  // namespace gpuyard::cli
