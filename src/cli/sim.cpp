// gpuyard sim
#include <fmt/format.h>

#include "base/files.h"
#include "base/json_writer.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "sim/keeper.h"

namespace gpuyard::cli {
namespace {

using sim::WorldStatus;

std::string world_of(const SimVerb& verb) {
  return verb.world.empty() ? sim::default_world_directory() : verb.world;
}

int start(const SimVerb& verb) {
  const auto load = sim::parse_workload(verb.load);
  if (!load) return complain(load.error());
  sim::WorldOptions options;
  options.directory = world_of(verb);
  options.model = verb.model;
  options.gpus = verb.gpus;
  options.load = *load;
  const auto world = sim::start_keeper(options, sim::KeeperLifetime::independent);
  if (!world) return complain(world.error());
  print(
      fmt::format("{} simulated GPUs in {} (keeper {})\nUse them with: export "
                  "GPUYARD_SIM_WORLD={} LD_LIBRARY_PATH={}\n",
                  options.gpus, world->directory(), world->keeper_pid(), world->directory(),
                  parent_directory(sim::simulated_nvml_path())));
  return 0;
}

std::string status_table(const WorldStatus& status) {
  Table table;
  table.headings = {"GPU", "NAME", "WORKLOAD", "UTIL", "TEMP", "POWER", "SM CLOCK", "FAULTS"};
  table.right = {true, false, false, true, true, true, true, false};
  for (const sim::GpuStatus& gpu : status.gpus) {
    std::string faults = gpu.lost ? "lost" : "";
    for (const std::string& fault : gpu.faults) faults += (faults.empty() ? "" : ", ") + fault;
    table.rows.push_back({std::to_string(gpu.index), gpu.name, gpu.workload,
                          fmt::format("{} %", gpu.utilization_percent),
                          fmt::format("{} C", gpu.temperature_celsius),
                          fmt::format("{:.0f} / {:.0f} W", gpu.power_w, gpu.power_limit_w),
                          fmt::format("{} MHz", gpu.sm_clock_mhz), faults});
  }
  return fmt::format("world {}, keeper {}\n{}", status.directory, status.keeper_pid, table.text());
}

int status(const SimVerb& verb) {
  const auto world = sim::world_status(world_of(verb));
  if (!world) return complain(world.error());
  print(verb.json ? json::to_json(*world) + "\n" : status_table(*world));
  return 0;
}

int load(const SimVerb& verb) {
  const auto workload = sim::parse_workload(verb.load);
  if (!workload) return complain(workload.error());
  const auto done = sim::set_load(world_of(verb), verb.gpu, *workload);
  return done ? 0 : complain(done.error());
}

Result<sim::Fault> fault_of(const SimVerb& verb) {
  sim::Fault fault;
  fault.lost = verb.lost ? 1 : 0;
  if (verb.call.empty()) return fault;
  const auto call = sim::call_from_name(verb.call);
  if (!call) return Error{Errc::invalid, "there is no driver call \"" + verb.call + "\""};
  fault.calls[0].call = *call;
  fault.calls[0].code = verb.code;
  fault.calls[0].latency_ms = verb.never_returns ? sim::kNeverReturns : verb.latency_ms.value_or(0);
  return fault;
}

int inject(const SimVerb& verb) {
  if (!verb.lost && !verb.clear && verb.call.empty()) {
    return complain({Errc::invalid, "say what: --lost, --call CALL or --clear"});
  }
  if (verb.clear) {
    const auto cleared = sim::clear_faults(world_of(verb), verb.gpu);
    return cleared ? 0 : complain(cleared.error());
  }
  const auto fault = fault_of(verb);
  if (!fault) return complain(fault.error());
  const auto done = sim::inject(world_of(verb), verb.gpu, *fault);
  return done ? 0 : complain(done.error());
}

int stop(const SimVerb& verb) {
  const auto done = sim::stop_keeper(world_of(verb));
  return done ? 0 : complain(done.error());
}

}  // namespace

int run(const SimVerb& verb) {
  switch (verb.action) {
    case SimVerb::Action::start:
      return start(verb);
    case SimVerb::Action::status:
      return status(verb);
    case SimVerb::Action::stop:
      return stop(verb);
    case SimVerb::Action::load:
      return load(verb);
    case SimVerb::Action::inject:
      return inject(verb);
  }
  return exit_code_of(Errc::internal);
}

}  // namespace gpuyard::cli
