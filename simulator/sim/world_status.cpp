// A world's status, read from its file as any client does it.
#include "sim/world_status.h"

#include <array>
#include <numeric>

#include <fmt/format.h>

#include "sim/pci_address.h"
#include "sim/workload.h"
#include "sim/world_reader.h"

namespace gpuyard::sim {
namespace {

std::string describe(const CallFault& fault) {
  if (fault.latency_ms == kNeverReturns)
    return fmt::format("{}: never returns", name_of(fault.call));
  std::string text(name_of(fault.call));
  text += ":";
  if (fault.code != 0) text += fmt::format(" code {}", fault.code);
  if (fault.latency_ms != 0) text += fmt::format(" after {} ms", fault.latency_ms);
  return text;
}

std::string compute_mode_name(std::uint32_t mode) {
  constexpr std::array names{"default", "exclusive_thread", "prohibited", "exclusive_process"};
  return mode < names.size() ? names[mode] : "unknown";
}

std::uint64_t sum(const EccCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::vector<std::uint32_t> locked(std::uint32_t lowest, std::uint32_t highest) {
  if (highest == 0) return {};
  return {lowest, highest};
}

SettingsStatus settings_of(const Model& model, const GpuRecord& record) {
  SettingsStatus status;
  status.locked_sm_mhz = locked(record.locked_sm_min_mhz, record.locked_sm_max_mhz);
  status.locked_memory_mhz = locked(record.locked_memory_min_mhz, record.locked_memory_max_mhz);
  status.persistence_mode = record.persistence_mode != 0;
  status.compute_mode = compute_mode_name(record.compute_mode);
  if (model.has_ecc) {
    status.ecc_mode = record.ecc_mode != 0;
    status.ecc_mode_pending = record.ecc_mode_pending != 0;
  }
  return status;
}

void put_sensors(const Model& model, const GpuRecord& record, GpuStatus& status) {
  status.utilization_percent = record.gpu_utilization_percent;
  status.memory_utilization_percent = record.memory_utilization_percent;
  status.temperature_celsius = record.temperature_celsius;
  if (model.has_memory_temperature) {
    status.memory_temperature_celsius = record.memory_temperature_celsius;
  }
  status.fan_percent.assign(record.fan_percent.begin(), record.fan_percent.begin() + model.fans);
  status.power_w = record.power_mw / 1000.0;
  status.power_limit_w = record.power_limit_mw / 1000.0;
  status.energy_joules = static_cast<double>(record.energy_mj) / 1000.0;
  status.sm_clock_mhz = record.sm_clock_mhz;
  status.memory_clock_mhz = record.memory_clock_mhz;
  status.clock_reasons = record.clock_reasons;
  status.performance_state = record.performance_state;
  status.pcie_generation = record.pcie_generation;
  status.pcie_tx_bytes_per_s = record.pcie_tx_bytes_per_s;
  status.pcie_rx_bytes_per_s = record.pcie_rx_bytes_per_s;
}

void put_memory(const GpuRecord& record, GpuStatus& status) {
  status.ecc_corrected = sum(record.ecc_aggregate_corrected);
  status.ecc_uncorrected = sum(record.ecc_aggregate_uncorrected);
  status.remapped_rows = record.rows.corrected_rows + record.rows.uncorrected_rows;
  status.retired_pages = record.retired_pages_single_bit + record.retired_pages_double_bit;
  status.repair_pending = record.rows.pending != 0 || record.retired_pages_pending != 0;
}

GpuStatus status_of(const WorldReader& world, std::uint32_t index, const GpuRecord& record) {
  const Identity& identity = world.identity(index);
  const Model& model = world.model(index);
  GpuStatus status;
  status.index = static_cast<int>(index);
  status.model = model.key;
  status.uuid = identity.uuid;
  status.name = model.name;
  status.pci_address = pci_address(identity).data();
  status.workload = name_of(static_cast<WorkloadKind>(record.workload_kind));
  status.memory_total_bytes = model.memory_total_bytes;
  status.memory_used_bytes = model.memory_reserved_bytes + record.memory_used_bytes;
  put_sensors(model, record, status);
  put_memory(record, status);
  status.settings = settings_of(model, record);
  status.lost = record.fault.lost != 0;
  for (const CallFault& fault : record.fault.calls) {
    if (fault.call != Call::none) status.faults.push_back(describe(fault));
  }
  return status;
}

ProcessStatus status_of(const ProcessUse& process) {
  return {.pid = process.pid,
          .synthetic = process.pid > kLastRealPid,
          .kind = process.kind == ProcessKind::compute ? "compute" : "graphics",
          .memory_bytes = process.memory_bytes,
          .sm_percent = process.sm_percent};
}

// Settings have no, one or two values.
std::size_t values_of(Setting setting) {
  switch (setting) {
    case Setting::gpu_locked_clocks:
    case Setting::memory_locked_clocks:
      return 2;
    case Setting::gpu_locked_clocks_reset:
    case Setting::memory_locked_clocks_reset:
      return 0;
    default:
      return 1;
  }
}

WriteStatus status_of(const WriteRecord& record) {
  WriteStatus status;
  status.sequence = record.sequence;
  status.gpu = static_cast<int>(record.write.gpu);
  status.setting = name_of(record.write.setting);
  const auto count = static_cast<std::ptrdiff_t>(values_of(record.write.setting));
  status.values.assign(record.write.values.begin(), record.write.values.begin() + count);
  status.nvml_code = record.nvml_code;
  status.pid = record.peer_pid;
  status.uid = record.peer_uid;
  return status;
}

EventStatus status_of(const EventRecord& record) {
  const char* type = record.type == kEventSingleBitEcc   ? "single_bit_ecc"
                     : record.type == kEventDoubleBitEcc ? "double_bit_ecc"
                                                         : "xid";
  return {.sequence = record.sequence,
          .gpu = static_cast<int>(record.gpu),
          .type = type,
          .data = record.data};
}

}  // namespace

Result<WorldStatus> world_status(const std::string& directory) {
  const auto world = WorldReader::open(directory);
  if (!world) return world.error();
  WorldStatus status{.directory = directory,
                     .keeper_pid = world->keeper_pid(),
                     .generation = world->generation(),
                     .gpus = {},
                     .writes = {},
                     .events = {}};
  for (std::uint32_t index = 0; index < world->gpu_count(); ++index) {
    const auto record = world->record(index);
    const auto processes = record ? world->processes(index, *record) : std::nullopt;
    if (!processes) {
      return Error{Errc::unavailable, fmt::format("the keeper of {} (pid {}) is dead or stopped",
                                                  directory, status.keeper_pid)};
    }
    status.gpus.push_back(status_of(*world, index, *record));
    for (const ProcessUse& process : *processes) {
      status.gpus.back().processes.push_back(status_of(process));
    }
  }
  for (const WriteRecord& write : world->writes()) status.writes.push_back(status_of(write));
  for (const EventRecord& event : world->events_after(0)) status.events.push_back(status_of(event));
  return status;
}

}  // namespace gpuyard::sim
