#include "faces/protocol/resources.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "gpu/device/catalog.h"
#include "gpu/device/fitness.h"

namespace gpuyard::protocol {
namespace {

std::optional<std::string> non_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

// The age of a snapshot is that of the metrics read at every tick; others are read less often.
bool is_fast(Metric metric) {
  static const auto fast = [] {
    std::array<bool, kMetricCount> is{};
    for (const ProbeRow& probe : probes()) {
      for (const Metric filled : probe.fills) {
        is[static_cast<std::size_t>(filled)] = probe.tier == Tier::fast;
      }
    }
    return is;
  }();
  return fast[static_cast<std::size_t>(metric)];
}

// The rows of a GPU by JSON key, as a map of reasons has them: each is added behind the last one.
const std::vector<const MetricRow*>& rows_by_key() {
  static const auto sorted = [] {
    std::vector<const MetricRow*> rows;
    for (const MetricRow& row : catalog()) {
      if (row.subject == MetricSubject::device) rows.push_back(&row);
    }
    std::ranges::sort(rows, {}, [](const MetricRow* row) { return gpuyard::json_key(*row); });
    return rows;
  }();
  return sorted;
}

// Returns the list of processes; empty if there is none, and then `missing` says why.
const ProcessList* list_of(const DeviceState& device, Reasons& missing) {
  const auto& list = device.sample.processes();
  if (list && list->processes() != nullptr) return &*list;
  missing["processes"] =
      device.info.fault.value_or(list ? std::get<Missing>(list->value) : Missing{});
  return nullptr;
}

void put_processes(Device& out, const DeviceState& device, const ProcessDirectory* directory) {
  const ProcessList* list = list_of(device, out.missing);
  if (list == nullptr) return;
  auto& shown = out.processes.emplace();
  shown.reserve(list->processes()->size());
  for (const GpuProcess& process : *list->processes())
    shown.push_back(process_of(process, directory));
}

std::string no_usable_gpu_reason(const gpuyard::Snapshot& snapshot) {
  const DeviceState& first = snapshot.devices.front();
  return fmt::format("none of the {} GPUs can be used; GPU {}: {}", snapshot.devices.size(),
                     first.info.index, first.why);
}

}  // namespace

DriverInfo driver_info_of(const gpuyard::DriverInfo& info) {
  return {info.driver_version, info.cuda_driver_version, info.nvml_version};
}

Device device_of(const DeviceState& device, TimePoint now, const ProcessDirectory* directory,
                 ProbeSet queried) {
  Device out{device.info.index,
             device.info.uuid,
             device.info.pci_address,
             device.info.name,
             device.condition,
             non_empty(device.why),
             device.health.verdict,
             device.health.reasons,
             device.sample,
             {},
             {},
             {},
             {},
             {},
             {}};
  std::optional<TimePoint> oldest;
  const auto add_missing = [&](const MetricRow& row, std::uint16_t index, const Missing& why) {
    out.missing.emplace_hint(out.missing.end(), json_key(row, index), why);
  };
  if (device.info.fault) queried = ProbeSet::all();
  for (const MetricRow* const row : rows_by_key()) {
    if (row->probe && !queried.contains(*row->probe)) continue;
    const auto readings = device.sample.all(row->metric);
    if (readings.empty()) add_missing(*row, 0, device.info.fault.value_or(Missing{}));
    for (const Reading& reading : readings) {
      if (const Missing* missing = reading.missing()) add_missing(*row, reading.index, *missing);
      if (is_fast(reading.metric)) {
        oldest = std::min(oldest.value_or(reading.taken), reading.taken);
      }
    }
  }
  if (oldest) out.age_ms = to_milliseconds(now - *oldest);
  if (const auto since = asleep_since(device)) out.asleep_ms = to_milliseconds(now - *since);
  put_processes(out, device, directory);
  out.xid_errors = device.xid_errors;
  out.bottleneck = device.bottleneck;
  return out;
}

DeviceProcesses device_processes_of(const DeviceState& device, TimePoint now,
                                    const ProcessDirectory* directory,
                                    const ArgumentFilter& can_see) {
  DeviceProcesses out;
  out.index = device.info.index;
  out.uuid = device.info.uuid;
  out.pci_address = device.info.pci_address;
  const ProcessList* list = list_of(device, out.missing);
  if (list == nullptr) return out;
  out.age_ms = to_milliseconds(now - list->taken);
  auto& shown = out.processes.emplace();
  for (const GpuProcess& process : *list->processes()) {
    shown.push_back(process_with_arguments(process, directory, can_see));
  }
  return out;
}

Snapshot snapshot_of(const gpuyard::Snapshot& snapshot, const ProcessDirectory* directory,
                     ProbeSet queried) {
  Snapshot out;
  out.simulated = snapshot.driver.info.simulated;
  out.generation = snapshot.generation;
  out.taken_at = to_rfc3339(snapshot.wall);
  out.driver_initialised = snapshot.driver.initialised;
  out.driver_error = non_empty(snapshot.driver.why);
  out.driver = driver_info_of(snapshot.driver.info);
  for (const DeviceState& device : snapshot.devices) {
    out.devices.push_back(device_of(device, snapshot.taken, directory, queried));
  }
  return out;
}

DeviceState state_of(const Device& device) {
  DeviceState out;
  out.info.index = device.index;
  out.info.uuid = device.uuid;
  out.info.pci_address = device.pci_address;
  out.info.name = device.name;
  out.condition = device.condition;
  out.why = device.why.value_or("");
  out.health = {device.health, device.health_reasons};
  out.bottleneck = device.bottleneck;
  out.sample = with_reasons(device.readings, device.missing);
  if (device.processes) {
    out.sample.set(ProcessList{
        {}, std::vector<GpuProcess>(device.processes->begin(), device.processes->end())});
  }
  return out;
}

Readiness readiness_of(const gpuyard::Snapshot& snapshot) {
  Readiness out;
  const auto sick = [&](const DeviceState& device) { return is_sick(device, snapshot.taken); };
  const bool all_sick = !snapshot.devices.empty() && std::ranges::all_of(snapshot.devices, sick);
  out.ready = snapshot.driver.initialised && !all_sick;
  // A GPU that is gone is listed but not counted, as nobody can use it.
  out.gpus = static_cast<std::uint64_t>(
      std::ranges::count_if(snapshot.devices, [](const DeviceState& device) {
        const auto& fault = device.info.fault;
        return !fault || fault->reason != MissingReason::device_lost;
      }));
  out.cuda_available = snapshot.driver.initialised && out.gpus > 0;
  out.reason = !snapshot.driver.initialised     ? snapshot.driver.why
               : all_sick                       ? no_usable_gpu_reason(snapshot)
               : out.gpus == 0                  ? "the driver is loaded but reports no GPUs"
               : snapshot.driver.info.simulated ? "serving simulated GPUs"
                                                : "serving";
  out.simulated = snapshot.driver.info.simulated;
  return out;
}

}  // namespace gpuyard::protocol
