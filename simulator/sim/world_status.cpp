// A world's status, read from its file as by any client.
#include "sim/world_status.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "sim/pci_address.h"
#include "sim/pcie_link.h"
#include "sim/workload.h"
#include "sim/world_reader.h"

namespace gpuyard::sim {
namespace {

std::string describe(const CallFault& fault) {
  std::string text = std::string(name_of(fault.call)) + ":";
  if (fault.latency_ms == kInfiniteLatency) text += " never returns";
  if (fault.latency_ms != kInfiniteLatency && fault.code != 0) {
    text += fmt::format(" code {}", fault.code);
  }
  if (fault.latency_ms != kInfiniteLatency && fault.latency_ms != 0) {
    text += fmt::format(" after {} ms", fault.latency_ms);
  }
  if (fault.times != 0) text += fmt::format(", {} times", fault.times);
  return text;
}

std::vector<std::string> describe(const CallFaults& calls) {
  std::vector<std::string> out;
  for (const CallFault& fault : calls) {
    if (fault.call != Call::none) out.push_back(describe(fault));
  }
  return out;
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
  status.pcie_width = record.pcie_width;
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

// By place: the index of the GPU there.
using Indexes = std::array<std::optional<int>, kMaxGpus>;

Indexes indexes_of(const DriverRecord& driver) {
  Indexes indexes;
  for (std::uint32_t index = 0; index < std::min(driver.gpu_count, kMaxGpus); ++index) {
    if (driver.order[index] < kMaxGpus) indexes[driver.order[index]] = static_cast<int>(index);
  }
  return indexes;
}

GpuStatus status_of(const WorldReader& world, std::uint32_t place, const GpuRecord& record) {
  const Identity& identity = world.identity(place);
  const Model& model = world.model(place);
  GpuStatus status;
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
  status.conditions = conditions_of(record.fault);
  status.faults = describe(record.fault.calls);
  return status;
}

ProcessStatus status_of(const ProcessUse& process) {
  return {.pid = process.pid,
          .synthetic = process.pid > kMaxRealPid,
          .kind = process.kind == ProcessKind::compute ? "compute" : "graphics",
          .memory_bytes = process.memory_bytes,
          .sm_percent = process.sm_percent};
}

// Fills in the GPU of a log's entry, which names a place; leaves it empty if there is no such
// place.
template <class Status>
void put_gpu(const WorldReader& world, const Indexes& indexes, std::uint32_t place,
             Status& status) {
  if (place >= world.gpu_count()) return;
  status.gpu = indexes[place];
  status.uuid = world.identity(place).uuid;
}

WriteStatus status_of(const WriteRecord& record) {
  WriteStatus status;
  status.sequence = record.sequence;
  status.at_boot_ms = record.at_ns / 1'000'000;
  status.setting = name_of(record.write.kind);
  const auto count = static_cast<std::ptrdiff_t>(value_count(record.write.kind));
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
  EventStatus status;
  status.sequence = record.sequence;
  status.type = type;
  status.data = record.data;
  return status;
}

TimeStatus time_of(const DriverRecord& driver) {
  constexpr std::array names{"real", "scaled", "stepped"};
  const auto mode = static_cast<std::size_t>(driver.time_mode);
  return {.mode = mode < names.size() ? names[mode] : "unknown",
          .speed = driver.speed_permille / 1000.0,
          .elapsed_s = static_cast<double>(driver.elapsed_ms) / 1000.0};
}

DriverStatus status_of(const DriverRecord& driver) {
  return {.loaded = driver.loaded != 0,
          .session = driver.session,
          .version = std::string(driver.version, ::strnlen(driver.version, sizeof driver.version)),
          .faults = describe(driver.calls)};
}

Error server_dead_error(const std::string& directory, pid_t server_pid) {
  return {Errc::unavailable, fmt::format("the simulator process of {} (PID {}) is dead or stopped",
                                         directory, server_pid)};
}

// Sorts by index, with unplugged GPUs last.
void sort_by_index(std::vector<GpuStatus>& gpus) {
  const auto rank = [](const GpuStatus& gpu) {
    return std::tuple(!gpu.index, gpu.index.value_or(0), std::string_view(gpu.pci_address));
  };
  std::ranges::sort(gpus, {}, rank);
}

}  // namespace

Result<WorldStatus> world_status(const std::string& directory) {
  const auto world = WorldReader::open(directory);
  if (!world) return world.error();
  WorldStatus status;
  status.directory = directory;
  status.keeper_pid = world->server_pid();
  status.generation = world->generation();
  const auto driver = world->driver();
  if (!driver) return server_dead_error(directory, status.keeper_pid);
  status.time = time_of(*driver);
  status.driver = status_of(*driver);
  status.timeline = {driver->timeline_entries, driver->timeline_done, driver->timeline_refused};
  const Indexes indexes = indexes_of(*driver);
  for (std::uint32_t place = 0; place < world->gpu_count(); ++place) {
    const auto record = world->record(place);
    const auto processes = record ? world->processes(place, *record) : std::nullopt;
    if (!processes) return server_dead_error(directory, status.keeper_pid);
    status.gpus.push_back(status_of(*world, place, *record));
    status.gpus.back().index = indexes[place];
    for (const ProcessUse& process : *processes) {
      status.gpus.back().processes.push_back(status_of(process));
    }
  }
  sort_by_index(status.gpus);
  status.setters = name_of(driver->setters);
  for (const WriteRecord& write : world->writes()) {
    status.writes.push_back(status_of(write));
    put_gpu(*world, indexes, write.write.gpu, status.writes.back());
  }
  // Sequence numbers have no gaps, and what was overwritten while it was read is not listed.
  if (!status.writes.empty()) status.writes_dropped = status.writes.front().sequence - 1;
  for (const EventRecord& event : world->events_after(0)) {
    status.events.push_back(status_of(event));
    put_gpu(*world, indexes, event.gpu, status.events.back());
  }
  return status;
}

}  // namespace gpuyard::sim
