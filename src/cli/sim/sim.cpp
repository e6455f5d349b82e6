// gpuyard sim
#include "cli/sim/sim.h"

#include <filesystem>

#include "base/files.h"
#include "base/try.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/output.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "daemon/config/config.h"
#include "sim/apply_setting.h"
#include "sim/driver_commands.h"
#include "sim/gpu_commands.h"
#include "sim/gpu_lookup.h"
#include "sim/scenario.h"
#include "sim/scenario_table.h"
#include "sim/world.h"
#include "sim/world_client.h"
#include "sim/world_status.h"

namespace gpuyard::cli {
namespace {

using sim::WorldStatus;

// Counts the GPUs, so that a wrong model or scenario is reported before a world server is started.
Result<std::size_t> gpus_of(const SimVerb& verb) {
  if (verb.scenario.empty()) {
    const auto fleet = sim::parse_fleet(verb.start.model, verb.start.gpus);
    return fleet ? Result<std::size_t>(fleet->size()) : Error(fleet.error()).in("--model");
  }
  const auto scenario = sim::read_scenario(verb.scenario);
  return scenario ? Result<std::size_t>(scenario->gpus) : scenario.error();
}

int validate(const SimVerb& verb) {
  const auto scenario = sim::read_scenario(verb.scenario);
  if (!scenario) return print_error(scenario.error());
  const auto last =
      scenario->timeline.empty() ? std::chrono::milliseconds{0} : scenario->timeline.back().at;
  print(formatted("{} is valid: {} GPUs, {} events until {:.2f} s\n", verb.scenario, scenario->gpus,
                  scenario->timeline.size(), std::chrono::duration<double>(last).count()));
  return 0;
}

int start(const SimVerb& verb) {
  const auto load = sim::parse_workload(verb.load);
  if (!load) return print_error(Error(load.error()).in("--load"));
  const auto gpus = gpus_of(verb);
  if (!gpus) return print_error(gpus.error());
  sim::WorldOptions options = verb.start;
  options.directory = world_of(verb);
  options.load = *load;
  options.setters = sim::setter_access_from_name(verb.setters).value_or(options.setters);
  if (!verb.scenario.empty()) options.scenario = std::filesystem::absolute(verb.scenario);
  const auto world = sim::start_world(options, sim::WorldLifetime::independent);
  if (!world) return print_error(world.error());
  print(
      formatted("{} simulated GPUs in {} (simulator process {})\nTo use them: export "
                "GPUYARD_SIM_WORLD={} LD_LIBRARY_PATH={}\n",
                *gpus, world->directory(), world->server_pid(), world->directory(),
                parent_directory(sim::nvml_path_of(world->directory()))));
  return 0;
}

// Empty if the time runs as usual.
Printable time_text(const sim::TimeStatus& time) {
  if (time.mode == "real") return "";
  const std::string how = time.mode == "scaled" ? fmt::format("{}x speed", time.speed) : time.mode;
  return formatted("\ntime {}, {:.2f} s since start", how, time.elapsed_s);
}

Printable driver_text(const sim::DriverStatus& driver) {
  if (driver.loaded && driver.session == 1 && driver.faults.empty()) return "";
  return formatted("\ndriver {}, {}{}{}", driver.version,
                   driver.loaded ? fmt::format("loaded {} times", driver.session) : "not loaded",
                   driver.faults.empty() ? "" : "; on all GPUs: ", fmt::join(driver.faults, ", "));
}

Printable status_table(const WorldStatus& status) {
  FittedTable table{{{"GPU", true},
                     {"NAME"},
                     {"WORKLOAD"},
                     {"UTIL", true},
                     {"TEMP", true},
                     {"POWER", true},
                     {"SM CLOCK", true},
                     {"PROCESSES", true},
                     {"FAULTS"}}};
  for (const sim::GpuStatus& gpu : status.gpus) {
    std::vector<std::string> wrong = gpu.conditions;
    wrong.insert(wrong.end(), gpu.faults.begin(), gpu.faults.end());
    table.add({{gpu.index ? std::to_string(*gpu.index) : "unplugged"},
               {gpu.name},
               {gpu.workload},
               {fmt::format("{} %", gpu.utilization_percent)},
               {fmt::format("{} C", gpu.temperature_celsius)},
               {fmt::format("{:.0f} / {:.0f} W", gpu.power_w, gpu.power_limit_w)},
               {fmt::format("{} MHz", gpu.sm_clock_mhz)},
               {std::to_string(gpu.processes.size())},
               {fmt::format("{}", fmt::join(wrong, ", "))}});
  }
  return formatted("world {}, simulator process {}{}{}\n{}", status.directory, status.keeper_pid,
                   time_text(status.time), driver_text(status.driver), table.text(Screen{}));
}

int status(const SimVerb& verb) {
  const auto world = sim::world_status(world_of(verb));
  if (!world) return print_error(world.error());
  print(verb.json ? json_line(*world) : status_table(*world));
  return 0;
}

Result<void> load(const SimVerb& verb) {
  const auto workload = GPUYARD_TRY(sim::parse_workload(verb.load));
  return sim::set_load(world_of(verb), verb.gpu, workload);
}

Result<void> reset(const SimVerb& verb) {
  const auto gpu = GPUYARD_TRY(sim::find_gpu_index(world_of(verb), verb.gpu_name));
  return sim::reset_gpu(world_of(verb), gpu,
                        verb.as_driver ? sim::ResetMode::driver : sim::ResetMode::test);
}

Result<void> step(const SimVerb& verb) {
  const auto time = GPUYARD_TRY(sim::parse_time(verb.time));
  return sim::step_world(world_of(verb), time);
}

// gpuyard sim driver
Result<void> change_driver(const SimVerb& verb) {
  const std::string world = world_of(verb);
  if (!verb.start.driver_version.empty()) {
    GPUYARD_TRY(sim::check_driver_version(verb.start.driver_version));
  }
  if (verb.action == SimVerb::Action::driver_unload) return sim::unload_driver(world);
  if (verb.action == SimVerb::Action::driver_load) {
    return sim::load_driver(world, verb.start.driver_version);
  }
  const auto away = verb.time.empty() ? std::chrono::milliseconds{0} : sim::parse_time(verb.time);
  if (!away) return away.error();
  return sim::reload_driver(world, *away, verb.start.driver_version);
}

}  // namespace

std::string world_of(const SimVerb& verb) {
  if (!verb.world.empty()) return verb.world;
  std::string usual = sim::default_world_directory();
  using enum SimVerb::Action;
  const bool own = verb.action == start || verb.action == stop;
  if (own || !environment_variable("GPUYARD_SIM_WORLD").empty()) return usual;
  if (const auto status = sim::world_status(usual);
      status || status.error().code != Errc::not_found) {
    return usual;
  }
  const auto config = config::load(Environment::current(), "");
  std::string of_daemon = config ? config->state.directory + "/world" : usual;
  return sim::world_status(of_daemon) ? of_daemon : usual;
}

int run(const SimVerb& verb) {
  switch (verb.action) {
    case SimVerb::Action::start:
      return start(verb);
    case SimVerb::Action::status:
      return status(verb);
    case SimVerb::Action::stop:
      return report_result(sim::stop_world(world_of(verb)));
    case SimVerb::Action::load:
      return report_result(load(verb));
    case SimVerb::Action::inject:
      return report_result(sim_inject(verb));
    case SimVerb::Action::reset:
      return report_result(reset(verb));
    case SimVerb::Action::run:
      return sim_run(verb);
    case SimVerb::Action::attach:
      return report_result(sim_attach(verb));
    case SimVerb::Action::unplug:
      return report_result(sim::unplug_gpu(world_of(verb), verb.gpu));
    case SimVerb::Action::plug:
      return report_result(sim::plug_gpu(world_of(verb), verb.uuid, verb.index));
    case SimVerb::Action::step:
      return report_result(step(verb));
    case SimVerb::Action::validate:
      return validate(verb);
    case SimVerb::Action::driver_reload:
    case SimVerb::Action::driver_unload:
    case SimVerb::Action::driver_load:
      return report_result(change_driver(verb));
  }
  return exit_code_of(Errc::internal);
}

}  // namespace gpuyard::cli
