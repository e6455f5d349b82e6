// A world as people and scripts see it, read from its file like any client does.
#include <fmt/format.h>

#include "sim/keeper.h"
#include "sim/pci_address.h"
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

GpuStatus status_of(const WorldReader& world, std::uint32_t index, const GpuRecord& record) {
  const Identity& identity = world.identity(index);
  const Model& model = world.model(index);
  GpuStatus status;
  status.index = static_cast<int>(index);
  status.uuid = identity.uuid;
  status.name = model.name;
  status.pci_address = pci_address(identity).data();
  status.workload = name_of(static_cast<WorkloadKind>(record.workload_kind));
  status.memory_total_bytes = model.memory_total_bytes;
  status.memory_used_bytes = model.memory_reserved_bytes + record.memory_used_bytes;
  status.utilization_percent = record.gpu_utilization_percent;
  status.temperature_celsius = record.temperature_celsius;
  status.power_w = record.power_mw / 1000.0;
  status.power_limit_w = record.power_limit_mw / 1000.0;
  status.sm_clock_mhz = record.sm_clock_mhz;
  status.energy_joules = static_cast<double>(record.energy_mj) / 1000.0;
  status.lost = record.fault.lost != 0;
  for (const CallFault& fault : record.fault.calls) {
    if (fault.call != Call::none) status.faults.push_back(describe(fault));
  }
  return status;
}

}  // namespace

Result<WorldStatus> world_status(const std::string& directory) {
  const auto world = WorldReader::open(directory);
  if (!world) return world.error();
  WorldStatus status{.directory = directory,
                     .keeper_pid = world->keeper_pid(),
                     .generation = world->generation(),
                     .gpus = {}};
  for (std::uint32_t index = 0; index < world->gpu_count(); ++index) {
    const auto record = world->record(index);
    if (!record) {
      return Error{Errc::unavailable, fmt::format("the keeper of {} (pid {}) is dead or stopped",
                                                  directory, status.keeper_pid)};
    }
    status.gpus.push_back(status_of(*world, index, *record));
  }
  return status;
}

}  // namespace gpuyard::sim
