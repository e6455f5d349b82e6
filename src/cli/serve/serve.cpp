// gpuyard serve
#include "daemon/serve.h"
#include "daemon/config_check.h"

#include "base/log.h"
#include "base/try.h"
#include "cli/command_line.h"
#include "cli/read/devices.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "daemon/config/config.h"
#include "daemon/config/keys.h"
#include "daemon/mark_link.h"
#include "daemon/setter_link.h"
#include "faces/client/daemon_address.h"
#include "faces/library/driver_source.h"
#include "gpu/device/error.h"
#include "sim/demo.h"
#include "sim/world.h"
#include "sim/world_client.h"
#include "sim/world_file.h"
#include "sim/world_reader.h"

namespace gpuyard::cli {
namespace {

// Flags override files and the environment.
Result<config::Config> configuration(const ServeVerb& verb) {
  auto loaded = config::load(Environment::current(), verb.config_file);
  if (!loaded) return loaded;
  if (!verb.listen.empty()) {
    loaded->server.listen = verb.listen;
    loaded->set_at["server.listen"] = "--listen";
  }
  if (!verb.socket.empty()) loaded->server.socket = verb.socket;
  if (!verb.state.empty()) loaded->state.directory = verb.state;
  if (!verb.nvml.empty()) loaded->driver.nvml = verb.nvml;
  if (!verb.metrics_prefix.empty()) loaded->metrics.prefix = verb.metrics_prefix;
  if (!verb.metrics_dialect.empty()) {
    if (auto done = config::set_dialect(*loaded, verb.metrics_dialect); !done) {
      return std::move(done).error().in("--metrics-dialect");
    }
  }
  if (!verb.log_level.empty()) {
    if (auto done = config::set_level(*loaded, verb.log_level); !done) {
      return std::move(done).error().in("--log-level");
    }
  }
  return loaded;
}

Result<sim::RunningWorld> start_world(const config::Config& config, const ServeVerb& verb) {
  sim::WorldOptions options;
  options.directory = config.state.directory + "/world";
  options.gpus = verb.simulate;
  options.model = verb.model;
  options.scenario = verb.scenario;
  options.speed = verb.speed;
  if (verb.scenario.empty()) {
    if (const auto fleet = sim::parse_fleet(verb.model, verb.simulate); !fleet) {
      return Error(fleet.error()).in("--model");
    }
  }
  if (!verb.load.empty()) {
    const auto load = sim::parse_workload(verb.load);
    if (!load) return Error(load.error()).in("--load");
    options.load = *load;
  } else if (verb.scenario.empty()) {
    sim::make_demo(options, config.server.socket);
  }
  auto world = sim::start_world(options, sim::WorldLifetime::with_creator);
  if (!world) return std::move(world).error().in("simulating");
  ::setenv("GPUYARD_SIM_WORLD", options.directory.c_str(), 1);
  return world;
}

// The world in whose server the GPUs live; a new world server makes a new world.
std::string world_name() {
  const std::string directory = sim::default_world_directory();
  const auto world = sim::WorldReader::open(directory);
  return world ? fmt::format("{} {}", directory, world->server_pid()) : directory;
}

// Refuses a recording that cannot be played, so that no daemon starts without GPUs.
Result<std::optional<recording::Replay>> replay_of(const ServeVerb& verb) {
  if (verb.replay.empty()) return std::optional<recording::Replay>();
  auto replay =
      GPUYARD_TRY(replay_from(verb.replay, verb.replay_from, verb.replay_speed, "--replay-from"));
  GPUYARD_TRY(recording::open_replay(replay));
  return std::optional(std::move(replay));
}

Printable no_gpu(const protocol::Snapshot& shown) {
  const std::string reason = shown.driver_error.value_or("unknown");
  return formatted("No GPU found: {}\n", reason) +
         Printable::lines(driver_advice(reason, "--nvml PATH, or nvml under [driver]")) + "\n";
}

void greet(const Snapshot& snapshot, const std::vector<std::string>& addresses) {
  const auto shown = protocol::snapshot_of(snapshot);
  Printable text = shown.driver_initialised ? device_table(shown) : no_gpu(shown);
  for (const std::string& address : addresses) {
    if (address.starts_with("http")) {
      text += formatted(
          "\n  REST API    {0}/api/gpu/devices\n  Prometheus  {0}/metrics\n  Web page    {0}/\n  "
          "API docs    {0}/docs\n",
          address);
    } else {
      text += formatted("  Socket      {}\n", address);
    }
  }
  // A greeting that nobody can read is no reason to end.
  text += "\nPress Ctrl-C to stop.\n";
  static_cast<void>(try_print(text).ok());
}

void add_daemon(Options daemon, ServeVerb& verb) {
  daemon
      .option("--config", verb.config_file,
              "Configuration file to read instead of the default files")
      .metavar("FILE");
  daemon.option("--state", verb.state, "Directory for persistent state").metavar("DIR");
  daemon.option("--socket", verb.socket, "Unix socket to listen on")
      .metavar("PATH")
      .environment("GPUYARD_SOCKET");
  daemon
      .option("--listen", verb.listen,
              "TCP address to listen on; repeatable, port 0 picks a free port")
      .metavar("ADDRESS:PORT")
      .default_is("127.0.0.1:9410");
  daemon.option("--log-level", verb.log_level, "Log level: debug, info, warning or error")
      .metavar("LEVEL")
      .default_is("info");
  daemon.flag("--greet", verb.greet, "Print the GPUs and URLs after startup");
}

void add_served_gpus(Options gpus, ServeVerb& verb) {
  const Option nvml = gpus.option("--nvml", verb.nvml, "Path of libnvidia-ml.so.1")
                          .metavar("PATH")
                          .default_is("found by the loader");
  const Option simulate = add_simulate(gpus, verb.simulate).excludes(nvml);
  const Option model = add_model(gpus, verb.model).needs(simulate);
  const Option load =
      gpus.option("--load", verb.load,
                  "Workload of each simulated GPU, e.g. idle, mixed or training:0.9:40G")
          .metavar("KIND[:LOAD[:VRAM]]")
          .default_is("a demo with 4 or more GPUs")
          .needs(simulate);
  const Option speed = gpus.option("--speed", verb.speed, "Simulated seconds per real second")
                           .metavar("FACTOR")
                           .default_is("1")
                           .needs(simulate);
  gpus.option("--scenario", verb.scenario, "Scenario file for the simulated GPUs")
      .metavar("FILE")
      .needs(simulate)
      .excludes(model)
      .excludes(load)
      .excludes(speed);
  const Option replay = gpus.option("--replay", verb.replay, "Serve a recording instead of GPUs")
                            .metavar("FILE")
                            .excludes(nvml)
                            .excludes(simulate);
  add_replay_position(gpus, "--replay-from", verb.replay_from, "--replay-speed", verb.replay_speed,
                      replay);
}

}  // namespace

Options add_serve(Options program, ServeVerb& verb) {
  const Options serve = program.verb("serve", "Run the daemon in the foreground");
  serve
      .explain(
          "Options override the configuration files; gpuyard config path lists these, gpuyard "
          "config init prints one with all keys.")
      .example("gpuyard serve --simulate 8")
      .example("gpuyard serve --replay night.rec --replay-speed 60");
  add_daemon(serve.heading("Daemon"), verb);
  const Options metrics = serve.heading("Metrics");
  metrics.option("--metrics-prefix", verb.metrics_prefix, "Prefix of all metric names")
      .metavar("WORD")
      .default_is("gpuyard");
  metrics
      .option("--metrics-dialect", verb.metrics_dialect,
              "Naming of metrics: gpuyard, dcgm-4.8 or both")
      .metavar("NAME")
      .default_is("gpuyard");
  add_served_gpus(serve.heading("GPUs (real, simulated or recorded)"), verb);
  return serve;
}

int run(const ServeVerb& verb) {
  // The configuration itself may be among the files that only root may read.
  daemon::open_files_by_marks(config::Config{}.processes.marks_socket);
  auto config = configuration(verb);
  if (!config) return print_error(config.error());
  daemon::open_files_by_marks(config->processes.marks_socket);
  log::set_level(config->log.level);
  if (const auto valid = daemon::check_config(*config); !valid) return print_error(valid.error());
  auto replay = replay_of(verb);
  if (!replay) return print_error(replay.error());
  const auto lock = daemon::lock_state(config->state.directory);
  if (!lock) return print_error(lock.error());

  std::optional<sim::RunningWorld> world;
  if (verb.simulate) {
    auto started = start_world(*config, verb);
    if (!started) return print_error(started.error());
    world.emplace(*std::move(started));
  }
  // The library in the configuration file is for the real GPUs.
  auto driver =
      library::choose_nvml(verb.simulate ? "" : config->driver.nvml, sim::simulated_nvml_path());
  driver.replay = *std::move(replay);
  daemon::ServeOptions options{
      *std::move(config), std::move(driver), std::string(kVersion), {}, {}, {}, {}, {}, {}};
  // A world of its own needs no right to be changed.
  if (!verb.simulate && !options.driver.replay) {
    options.setter_address = environment_variable(daemon::kSetterVariable);
  }
  options.setter_arguments = {"--state", options.config.state.directory};
  if (!verb.config_file.empty()) {
    options.setter_arguments.insert(options.setter_arguments.end(), {"--config", verb.config_file});
  }
  options.files = config::config_files(Environment::current(), verb.config_file);
  options.read_config = [&verb] { return configuration(verb); };
  options.device_table = [](const protocol::Snapshot& snapshot) {
    return device_table(snapshot, Screen{.utf8 = true});
  };
  options.simulated_world = world_name;
  if (verb.greet) options.on_ready = greet;
  return report_result(daemon::serve(options));
}

}  // namespace gpuyard::cli
