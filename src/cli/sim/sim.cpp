// gpuyard sim
#include <filesystem>

#include <fmt/format.h>

#include "base/files.h"
#include "base/json_writer.h"
#include "cli/screen/terminal.h"
#include "cli/sim/sim.h"
#include "sim/fleet.h"
#include "sim/gpu_named.h"
#include "sim/keeper.h"
#include "sim/scenario.h"
#include "sim/time_text.h"
#include "sim/world_status.h"

namespace gpuyard::cli {
namespace {

using sim::WorldStatus;

// What is wrong with the world that is asked for is told before a keeper is started.
Result<std::size_t> gpus_of(const SimVerb& verb) {
  if (verb.scenario.empty()) {
    const auto fleet = sim::parse_fleet(verb.model, verb.gpus);
    return fleet ? Result<std::size_t>(fleet->size()) : fleet.error();
  }
  const auto scenario = sim::read_scenario(verb.scenario);
  return scenario ? Result<std::size_t>(scenario->gpus) : scenario.error();
}

int validate(const SimVerb& verb) {
  const auto scenario = sim::read_scenario(verb.scenario);
  if (!scenario) return complain(scenario.error());
  const auto last =
      scenario->timeline.empty() ? std::chrono::milliseconds{0} : scenario->timeline.back().at;
  print(fmt::format("{} is valid: {} GPUs, {} things happen until {:.2f} s\n", verb.scenario,
                    scenario->gpus, scenario->timeline.size(),
                    std::chrono::duration<double>(last).count()));
  return 0;
}

int start(const SimVerb& verb) {
  const auto load = sim::parse_workload(verb.load);
  if (!load) return complain(load.error());
  const auto gpus = gpus_of(verb);
  if (!gpus) return complain(gpus.error());
  sim::WorldOptions options;
  options.directory = world_of(verb);
  options.model = verb.model;
  options.gpus = verb.gpus;
  options.load = *load;
  options.setters = sim::setters_from_name(verb.setters).value_or(options.setters);
  options.driver_version = verb.driver_version;
  options.process_entry_bytes = verb.process_entry_bytes;
  options.speed = verb.speed;
  options.stepped = verb.stepped;
  options.missing = verb.missing;
  if (!verb.scenario.empty()) options.scenario = std::filesystem::absolute(verb.scenario);
  const auto world = sim::start_keeper(options, sim::KeeperLifetime::independent);
  if (!world) return complain(world.error());
  print(
      fmt::format("{} simulated GPUs in {} (keeper {})\nUse them with: export "
                  "GPUYARD_SIM_WORLD={} LD_LIBRARY_PATH={}\n",
                  *gpus, world->directory(), world->keeper_pid(), world->directory(),
                  parent_directory(sim::nvml_path_of(world->directory()))));
  return 0;
}

// Nothing, where they are as usual.
std::string time_text(const sim::TimeStatus& time) {
  if (time.mode == "real") return "";
  const std::string how =
      time.mode == "scaled" ? fmt::format("{} times as fast", time.speed) : time.mode;
  return fmt::format("\ntime {}, {:.2f} s since it began", how, time.elapsed_s);
}

std::string driver_text(const sim::DriverStatus& driver) {
  if (driver.loaded && driver.session == 1 && driver.faults.empty()) return "";
  return fmt::format("\ndriver {}, {}{}{}", driver.version,
                     driver.loaded ? fmt::format("loaded {} times", driver.session) : "not loaded",
                     driver.faults.empty() ? "" : "; on every GPU ",
                     fmt::join(driver.faults, ", "));
}

std::string status_table(const WorldStatus& status) {
  Table table;
  table.headings = {"GPU",   "NAME",     "WORKLOAD",  "UTIL",  "TEMP",
                    "POWER", "SM CLOCK", "PROCESSES", "FAULTS"};
  table.right = {true, false, false, true, true, true, true, true, false};
  for (const sim::GpuStatus& gpu : status.gpus) {
    std::vector<std::string> wrong = gpu.conditions;
    wrong.insert(wrong.end(), gpu.faults.begin(), gpu.faults.end());
    table.rows.push_back(
        {gpu.index ? std::to_string(*gpu.index) : "unplugged", gpu.name, gpu.workload,
         fmt::format("{} %", gpu.utilization_percent), fmt::format("{} C", gpu.temperature_celsius),
         fmt::format("{:.0f} / {:.0f} W", gpu.power_w, gpu.power_limit_w),
         fmt::format("{} MHz", gpu.sm_clock_mhz), std::to_string(gpu.processes.size()),
         fmt::format("{}", fmt::join(wrong, ", "))});
  }
  return fmt::format("world {}, keeper {}{}{}\n{}", status.directory, status.keeper_pid,
                     time_text(status.time), driver_text(status.driver), table.text());
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
  const auto gpu = sim::gpu_named(world_of(verb), verb.gpu_name);
  if (!gpu) return complain(gpu.error());
  const auto as = verb.as_driver ? sim::ResetAs::driver : sim::ResetAs::test;
  const auto done = sim::reset_gpu(world_of(verb), *gpu, as);
  return done ? 0 : complain(done.error());
}

int unplug(const SimVerb& verb) {
  const auto done = sim::unplug_gpu(world_of(verb), verb.gpu);
  return done ? 0 : complain(done.error());
}

int plug(const SimVerb& verb) {
  const auto done = sim::plug_gpu(world_of(verb), verb.uuid, verb.index);
  return done ? 0 : complain(done.error());
}

int step(const SimVerb& verb) {
  const auto time = sim::parse_time(verb.time);
  if (!time) return complain(time.error());
  const auto done = sim::step_world(world_of(verb), *time);
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
    case SimVerb::Action::unplug:
      return unplug(verb);
    case SimVerb::Action::plug:
      return plug(verb);
    case SimVerb::Action::step:
      return step(verb);
    case SimVerb::Action::validate:
      return validate(verb);
    case SimVerb::Action::driver_reload:
    case SimVerb::Action::driver_unload:
    case SimVerb::Action::driver_load:
      return sim_driver(verb);
  }
  return exit_code_of(Errc::internal);
}

}  // namespace gpuyard::cli
