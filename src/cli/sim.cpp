// gpuyard sim
#include <fmt/format.h>

#include "base/files.h"
#include "base/json_writer.h"
#include "cli/sim.h"
#include "cli/terminal.h"
#include "sim/fleet.h"
#include "sim/keeper.h"
#include "sim/world_status.h"

namespace gpuyard::cli {
namespace {

using sim::WorldStatus;

int start(const SimVerb& verb) {
  const auto load = sim::parse_workload(verb.load);
  if (!load) return complain(load.error());
  const auto fleet = sim::parse_fleet(verb.model, verb.gpus);
  if (!fleet) return complain(fleet.error());
  sim::WorldOptions options;
  options.directory = world_of(verb);
  options.model = verb.model;
  options.gpus = verb.gpus;
  options.load = *load;
  if (verb.setters == "everyone") options.setters = sim::SettersFor::everyone;
  const auto world = sim::start_keeper(options, sim::KeeperLifetime::independent);
  if (!world) return complain(world.error());
  print(
      fmt::format("{} simulated GPUs in {} (keeper {})\nUse them with: export "
                  "GPUYARD_SIM_WORLD={} LD_LIBRARY_PATH={}\n",
                  fleet->size(), world->directory(), world->keeper_pid(), world->directory(),
                  parent_directory(sim::simulated_nvml_path())));
  return 0;
}

std::string status_table(const WorldStatus& status) {
  Table table;
  table.headings = {"GPU",   "NAME",     "WORKLOAD",  "UTIL",  "TEMP",
                    "POWER", "SM CLOCK", "PROCESSES", "FAULTS"};
  table.right = {true, false, false, true, true, true, true, true, false};
  for (const sim::GpuStatus& gpu : status.gpus) {
    std::string faults = gpu.lost ? "lost" : "";
    for (const std::string& fault : gpu.faults) faults += (faults.empty() ? "" : ", ") + fault;
    table.rows.push_back(
        {std::to_string(gpu.index), gpu.name, gpu.workload,
         fmt::format("{} %", gpu.utilization_percent), fmt::format("{} C", gpu.temperature_celsius),
         fmt::format("{:.0f} / {:.0f} W", gpu.power_w, gpu.power_limit_w),
         fmt::format("{} MHz", gpu.sm_clock_mhz), std::to_string(gpu.processes.size()), faults});
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

int reset(const SimVerb& verb) {
  const auto done = sim::reset_gpu(world_of(verb), verb.gpu);
  return done ? 0 : complain(done.error());
}

int stop(const SimVerb& verb) {
  const auto done = sim::stop_keeper(world_of(verb));
  return done ? 0 : complain(done.error());
}

}  // namespace

std::string world_of(const SimVerb& verb) {
  return verb.world.empty() ? sim::default_world_directory() : verb.world;
}

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
      return sim_inject(verb);
    case SimVerb::Action::reset:
      return reset(verb);
    case SimVerb::Action::run:
      return sim_run(verb);
    case SimVerb::Action::attach:
      return sim_attach(verb);
  }
  return exit_code_of(Errc::internal);
}

}  // namespace gpuyard::cli
