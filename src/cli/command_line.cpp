// CLI11 costs seconds to compile, so it is included here and nowhere else.
#include "cli/command_line.h"

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace gpuyard::cli {
namespace {

constexpr int kMostGpus = 64;

CLI::Option* add_simulate(CLI::App* verb, std::optional<int>& gpus) {
  return verb->add_option("--simulate", gpus, "Use N simulated GPUs (1 to 64)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostGpus));
}

CLI::Option* add_model(CLI::App* verb, std::string& model) {
  return verb->add_option("--model", model,
                          "Model of the simulated GPUs, or several: a100:2,h100:4,t4");
}

void add_source(CLI::App* verb, SourceFlags& flags) {
  auto* socket = verb->add_option("--socket", flags.socket,
                                  "Ask the daemon at PATH or ADDRESS:PORT, and nobody else");
  auto* local = verb->add_flag("--local", flags.local, "Ask the driver, not a daemon");
  auto* nvml =
      verb->add_option("--nvml", flags.nvml, "Path of libnvidia-ml.so.1, for the local driver");
  auto* simulate = add_simulate(verb, flags.simulate);
  socket->excludes(local)->excludes(nvml)->excludes(simulate);
  nvml->excludes(simulate);
}

void add_serve(CLI::App& app, Verb& chosen, ServeVerb& verb) {
  auto* serve = app.add_subcommand("serve", "Run the daemon in the foreground");
  serve->add_option("--config", verb.config_file, "Read FILE instead of the default files");
  serve
      ->add_option("--listen", verb.listen, "Listen on ADDRESS:PORT (repeatable; port 0: any free)")
      ->allow_extra_args(false);
  serve->add_option("--socket", verb.socket, "Unix socket of the API");
  serve->add_option("--state", verb.state, "Directory for what must survive the daemon");
  auto* nvml = serve->add_option("--nvml", verb.nvml, "Path of libnvidia-ml.so.1");
  serve->add_option("--metrics-prefix", verb.metrics_prefix, "First word of every metric name");
  serve->add_option("--log-level", verb.log_level, "debug, info, warning or error");
  auto* simulate = add_simulate(serve, verb.simulate)->excludes(nvml);
  add_model(serve, verb.model)->needs(simulate);
  serve->add_flag("--greet", verb.greet, "Print the GPUs and the URLs once they are known");
  serve->callback([&] { chosen = verb; });
}

template <class ReadingVerb>
void add_reading(CLI::App& app, Verb& chosen, ReadingVerb& verb, const char* name,
                 const char* summary) {
  auto* sub = app.add_subcommand(name, summary);
  add_source(sub, verb.source);
  sub->add_flag("--json", verb.json, "Print JSON");
  sub->callback([&] { chosen = verb; });
}

void add_config(CLI::App& app, Verb& chosen, ConfigVerb& verb) {
  auto* config = app.add_subcommand("config", "Show and check the configuration");
  config->require_subcommand(1);
  const auto action = [&](const char* name, ConfigVerb::Action what, const char* summary) {
    auto* sub = config->add_subcommand(name, summary);
    sub->add_option("--config", verb.file, "Use FILE instead of the default files");
    sub->callback([&chosen, &verb, what] {
      verb.action = what;
      chosen = verb;
    });
  };
  using enum ConfigVerb::Action;
  action("init", init, "Print a commented configuration file");
  action("print", print, "Print the configuration in force");
  action("validate", validate, "Say whether the configuration is valid");
  action("path", path, "Print the files that are read, in order");
}

void add_broken_call(CLI::App* inject, SimVerb& verb, CLI::Option* clear) {
  auto* call = inject->add_option("--call", verb.call,
                                  "A driver call fails or is slow (adds to its faults)");
  inject->add_option("--code", verb.code, "NVML return code of that call")->needs(call);
  inject->add_option("--latency-ms", verb.latency_ms, "That call takes so long")->needs(call);
  inject->add_flag("--never-returns", verb.never_returns, "That call blocks for ever")->needs(call);
  clear->excludes(call);
}

void add_inject(CLI::App* inject, SimVerb& verb) {
  inject->add_option("--gpu", verb.gpu, "Index of the GPU")->required();
  auto* lost =
      inject->add_flag("--lost", verb.lost, "The GPU falls off the bus (adds to its faults)");
  auto* clear = inject->add_flag("--clear", verb.clear, "The GPU has no fault any more");
  clear->excludes(lost);
  add_broken_call(inject, verb, clear);
  inject->add_option("--xid", verb.xid, "The driver reports this Xid");
  inject->add_option("--ecc-corrected", verb.ecc_corrected, "So many single-bit memory errors");
  inject->add_option("--ecc-uncorrected", verb.ecc_uncorrected, "So many double-bit memory errors");
  inject->add_option("--ecc-location", verb.ecc_location,
                     "Where those are: l1_cache, l2_cache, device_memory, register_file, "
                     "texture_memory, texture_shared_memory, cbu, sram");
  inject->add_option("--heat", verb.heat, "Its surroundings are so many degrees C hotter");
}

void add_process(CLI::App* verb, SimVerb& what) {
  verb->add_option("--vram", what.vram, "Memory it uses, such as 10G");
  verb->add_option("--load", what.process_load, "Share of the GPU's time that it asks for, 0 to 1")
      ->check(CLI::Range(0.0, 1.0));
  verb->add_flag("--graphics", what.graphics, "It draws rather than computes");
}

void add_run(CLI::App* run, SimVerb& verb) {
  run->add_option("--gpu", verb.gpu, "Index of the GPU")->required();
  add_process(run, verb);
  run->add_option("command", verb.command, "What to run, after --")->required();
}

void add_attach(CLI::App* attach, SimVerb& verb) {
  auto* gpu = attach->add_option("--gpu", verb.attach_gpu,
                                 "Index of the GPU (else its CUDA_VISIBLE_DEVICES says)");
  auto* who = attach->add_option_group("who");
  who->add_option("--pid", verb.pid, "The process, until it dies")->check(CLI::PositiveNumber);
  who->add_option("--synthetic", verb.synthetic,
                  "So many processes that do not exist, instead of those the GPU had")
      ->needs(gpu);
  who->require_option(1);
  add_process(attach, verb);
}

void add_start(CLI::App* start, SimVerb& verb) {
  start->add_option("--gpus", verb.gpus, "How many GPUs (8, where the model says no count)")
      ->check(CLI::Range(1, kMostGpus));
  add_model(start, verb.model);
  start->add_option("--load", verb.load,
                    "What they do: KIND[:LOAD[:VRAM]], KIND of idle, steady, "
                    "training, bursty, mixed");
  start
      ->add_option("--setters", verb.setters, "Who may change settings: owner (and root), everyone")
      ->check(CLI::IsMember({"owner", "everyone"}));
}

void add_sim(CLI::App& app, Verb& chosen, SimVerb& verb) {
  auto* sim = app.add_subcommand("sim", "Simulated GPUs for trying and testing");
  sim->require_subcommand(1);
  const auto action = [&](const char* name, SimVerb::Action what, const char* summary) {
    auto* sub = sim->add_subcommand(name, summary);
    sub->add_option("--world", verb.world, "Directory of the world (or GPUYARD_SIM_WORLD)");
    sub->callback([&chosen, &verb, what] {
      verb.action = what;
      chosen = verb;
    });
    return sub;
  };
  using enum SimVerb::Action;
  add_start(action("start", start, "Start a world"), verb);
  action("status", status, "Show a world")->add_flag("--json", verb.json, "Print JSON");
  action("stop", stop, "Stop a world");
  auto* loaded = action("load", load, "Give one GPU something to do");
  loaded->add_option("--gpu", verb.gpu, "Index of the GPU")->required();
  loaded->add_option("workload", verb.load, "KIND[:LOAD[:VRAM]]")->required();
  add_run(action("run", run, "Run a command that uses one GPU"), verb);
  add_attach(action("attach", attach, "Put a running process on a GPU"), verb);
  add_inject(action("inject", inject, "Break one GPU"), verb);
  action("reset", reset, "Reset one GPU")
      ->add_option("--gpu", verb.gpu, "Index of the GPU")
      ->required();
}

// An unset shell variable must not silently mean the default.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_name() == "command") continue;  // its words are not ours
    for (const std::string& value : option->results()) {
      if (value.empty()) throw CLI::ValidationError(option->get_name(), "the value is empty");
    }
  }
  for (const CLI::App* verb : app.get_subcommands()) refuse_empty_values(*verb);
}

}  // namespace

std::variant<Verb, int> parse_command_line(int argc, const char* const* argv) {
  CLI::App app("Watches, controls, guards and shares the GPUs of a machine.", "gpuyard");
  app.require_subcommand(1);
  Verb chosen;
  ServeVerb serve;
  DevicesVerb devices;
  DriverVerb driver;
  ConfigVerb config;
  VersionVerb version;
  SimVerb sim;
  add_reading(app, chosen, devices, "devices", "List the GPUs");
  add_reading(app, chosen, driver, "driver", "Show the versions of driver, CUDA and NVML");
  add_serve(app, chosen, serve);
  add_config(app, chosen, config);
  add_sim(app, chosen, sim);
  auto* versions = app.add_subcommand("version", "Show the version of gpuyard");
  versions->add_flag("--json", version.json, "Print JSON");
  versions->callback([&] { chosen = version; });
  try {
    app.parse(argc, argv);
    refuse_empty_values(app);
  } catch (const CLI::ParseError& error) {
    // Help is an answer (stdout, 0); everything else is the user's mistake (stderr, 2).
    return app.exit(error) == 0 ? 0 : exit_code_of(Errc::invalid);
  }
  return chosen;
}

}  // namespace gpuyard::cli
