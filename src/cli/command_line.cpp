// CLI11 costs seconds to compile, so it is included here, in the other *_command_line.cpp, and
// nowhere else.
#include "cli/command_line.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/alerts_command_line.h"
#include "cli/color_option.h"
#include "cli/completion.h"
#include "cli/control_command_line.h"
#include "cli/lease_command_line.h"
#include "cli/sim_command_line.h"

namespace gpuyard::cli {
namespace {

CLI::Option* add_simulate(CLI::App* verb, std::optional<int>& gpus) {
  return verb->add_option("--simulate", gpus, "Use N simulated GPUs (1 to 64)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostGpus));
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

void add_position(CLI::App* verb, const char* from_name, std::string& from, const char* speed_name,
                  double& speed, CLI::Option* file) {
  verb->add_option(from_name, from, "Begin so far into the recording: 90s, 10m")
      ->type_name("TIME")
      ->needs(file);
  verb->add_option(speed_name, speed, "So many times as fast as it happened")
      ->check(CLI::Range(recording::kSlowest, recording::kFastest))
      ->needs(file);
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
  serve->add_option("--metrics-dialect", verb.metrics_dialect,
                    "Names of metrics: gpuyard, dcgm-4.8 or both");
  serve->add_option("--log-level", verb.log_level, "debug, info, warning or error");
  auto* simulate = add_simulate(serve, verb.simulate)->excludes(nvml);
  auto* model = add_model(serve, verb.model)->needs(simulate);
  serve
      ->add_option("--scenario", verb.scenario,
                   "File that says what they do and what happens to them")
      ->type_name("FILE")
      ->needs(simulate)
      ->excludes(model);
  auto* replay = serve->add_option("--replay", verb.replay, "Serve a recording instead of GPUs")
                     ->type_name("FILE")
                     ->excludes(nvml)
                     ->excludes(simulate);
  add_position(serve, "--replay-from", verb.replay_from, "--replay-speed", verb.replay_speed,
               replay);
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

void add_devices(CLI::App& app, Verb& chosen, DevicesVerb& verb) {
  auto* devices = app.add_subcommand("devices", "Show the GPUs, or one of them in full");
  add_source(devices, verb.source);
  devices->add_option("gpu", verb.gpu, "Index, UUID or PCI address; several with commas")
      ->type_name("GPU");
  devices->add_flag("--json", verb.json, "Print JSON");
  add_color(devices, verb.color);
  devices->callback([&] { chosen = verb; });
}

void add_watch(CLI::App& app, Verb& chosen, WatchVerb& verb) {
  auto* watch = app.add_subcommand("watch", "Show the GPUs again and again");
  add_source(watch, verb.source);
  watch->add_option("fields", verb.fields, "Show these, as `gpuyard query --list` names them")
      ->type_name("FIELD");
  watch->add_option("--interval", verb.interval, "Time between two looks: 500ms, 2s, 1m")
      ->type_name("TIME");
  watch->add_option("--count", verb.count, "End after N looks")->type_name("N");
  watch->add_option("--gpu", verb.gpu, "These GPUs only: indexes, UUIDs or PCI addresses")
      ->type_name("GPU");
  watch->add_flag("--json", verb.json, "Print a line of JSON for each look");
  add_color(watch, verb.color);
  watch->callback([&] { chosen = verb; });
}

void add_record(CLI::App& app, Verb& chosen, RecordVerb& verb) {
  auto* record = app.add_subcommand("record", "Write all readings to a file, to be replayed");
  add_source(record, verb.source);
  record->add_option("file", verb.file, "Where to; - is stdout")->required()->type_name("FILE");
  record->add_option("--interval", verb.interval, "Time between two looks: 500ms, 2s, 1m")
      ->type_name("TIME");
  record->add_option("--for", verb.length, "End after 90s, 10m, 8h (else Ctrl-C ends it)")
      ->type_name("TIME");
  record->add_flag("--force", verb.force, "Replace the file if it is there");
  record->callback([&] { chosen = verb; });
}

void add_replay(CLI::App& app, Verb& chosen, ReplayVerb& verb) {
  auto* replay = app.add_subcommand("replay", "Show a recording as `watch` shows GPUs");
  auto* file =
      replay->add_option("file", verb.file, "The recording")->required()->type_name("FILE");
  add_position(replay, "--from", verb.from, "--speed", verb.speed, file);
  replay->add_option("--interval", verb.watch.interval, "Time between two looks: 500ms, 2s, 1m")
      ->type_name("TIME");
  replay->add_option("--count", verb.watch.count, "End after N looks")->type_name("N");
  auto* info = replay->add_flag("--info", verb.info, "Say what is in the file, and end");
  replay->add_flag("--json", verb.watch.json, "Print a line of JSON for each look")->excludes(info);
  add_color(replay, verb.watch.color);
  replay->callback([&] { chosen = verb; });
}

void add_events(CLI::App& app, Verb& chosen, EventsVerb& verb) {
  auto* events = app.add_subcommand("events", "Show what happened to the GPUs and their driver");
  events->add_option("--socket", verb.source.socket,
                     "Ask the daemon at PATH or ADDRESS:PORT, and nobody else");
  events->add_flag("--follow", verb.follow, "Go on with what happens");
  events->add_option("--since", verb.since, "Only what followed the event with this id")
      ->type_name("ID");
  events->add_option("--gpu", verb.gpu, "These GPUs only: indexes, UUIDs or PCI addresses")
      ->type_name("GPU");
  events->add_flag("--json", verb.json, "Print a line of JSON for each event");
  add_color(events, verb.color);
  events->callback([&] { chosen = verb; });
}

void add_history(CLI::App& app, Verb& chosen, HistoryVerb& verb) {
  using enum HistoryVerb::Charset;
  static const std::map<std::string, HistoryVerb::Charset> kCharsets = {
      {"auto", automatic}, {"braille", braille}, {"block", block}, {"ascii", ascii}};
  auto* history = app.add_subcommand("history", "Show what a reading of the GPUs was");
  history->add_option("gpu", verb.gpus, "Indexes, UUIDs or PCI addresses; else all")
      ->type_name("GPU");
  history->add_option("--socket", verb.socket, "Ask the daemon at PATH or ADDRESS:PORT");
  history->add_option("--metric", verb.metrics, "What: power, temperature, util, clock, any key")
      ->type_name("NAME,...")
      ->allow_extra_args(false);
  history->add_option("--element", verb.element, "Which fan, link or place of errors");
  history->add_option("--since", verb.since, "2h, 7d, or a time like 2026-01-31T12:00:00Z")
      ->type_name("TIME");
  history->add_option("--until", verb.until, "The same; else now")->type_name("TIME");
  history->add_option("--step", verb.step, "Length of time for each point: 10s, 5m")
      ->type_name("TIME");
  auto* json = history->add_flag("--json", verb.json, "Print JSON");
  auto* csv = history->add_flag("--csv", verb.csv, "Print CSV")->excludes(json);
  history->add_flag("--plot", verb.plot, "Draw it")->excludes(json)->excludes(csv);
  history->add_option("--charset", verb.charset, "Draw with auto, braille, block or ascii")
      ->type_name("NAME")
      ->transform(CLI::CheckedTransformer(kCharsets));
  add_color(history, verb.color);
  history->callback([&] { chosen = verb; });
}

void add_query(CLI::App& app, Verb& chosen, QueryVerb& verb) {
  using enum QueryVerb::Action;
  auto* query =
      app.add_subcommand("query", "Print chosen readings for scripts, as nvidia-smi does");
  add_source(query, verb.source);
  query->add_option("--fields", verb.fields, "nvidia-smi's names or our JSON keys, with commas")
      ->type_name("NAME,...")
      ->allow_extra_args(false);
  query->add_option("--gpu", verb.gpu, "These GPUs only: indexes, UUIDs or PCI addresses")
      ->type_name("GPU");
  auto* format = query->add_option("--format", verb.format, "csv[,noheader][,nounits], or json");
  query->add_flag_callback(
           "--json", [&] { verb.format = "json"; }, "The same as --format json")
      ->excludes(format);
  auto* interval = query->add_option("--interval", verb.interval, "Again after 500ms, 2s, 1m")
                       ->type_name("TIME");
  query->add_option("--count", verb.count, "End after N answers")->type_name("N")->needs(interval);
  auto* who = query->add_flag_callback(
      "--processes", [&] { verb.action = processes; }, "Who computes on the GPUs");
  query->add_flag_callback("--list", [&] { verb.action = list; }, "Show all fields")->excludes(who);
  query->callback([&] { chosen = verb; });
}

void add_processes(CLI::App& app, Verb& chosen, ProcessesVerb& verb) {
  auto* processes = app.add_subcommand("processes", "Show who uses the GPUs");
  add_source(processes, verb.source);
  processes->add_option("gpu", verb.gpu, "Index, UUID or PCI address; several with commas")
      ->type_name("GPU");
  processes->add_option("--user", verb.user, "Only this user's, by name or number")
      ->type_name("USER");
  processes->add_flag("--json", verb.json, "Print JSON");
  add_color(processes, verb.color);
  processes->callback([&] { chosen = verb; });
}

// For scripts that call nvidia-smi: the same words, another program.
void add_smi(CLI::App& app, Verb& chosen, QueryVerb& verb) {
  auto* smi = app.add_subcommand("smi", "Answer a query in nvidia-smi's own words");
  auto* gpus =
      smi->add_option("--query-gpu", verb.fields, "Readings of the GPUs")->type_name("NAME,...");
  auto* apps = smi->add_option_function<std::vector<std::string>>(
                      "--query-compute-apps",
                      [&](const std::vector<std::string>& fields) {
                        verb.action = QueryVerb::Action::processes;
                        verb.fields = fields;
                      },
                      "Processes that compute")
                   ->type_name("NAME,...");
  gpus->allow_extra_args(false)->excludes(apps);
  apps->allow_extra_args(false);
  smi->add_option("--format", verb.format, "csv[,noheader][,nounits]");
  smi->add_option("-i,--id", verb.gpu, "These GPUs only")->type_name("GPU");
  auto* seconds = smi->add_option("-l,--loop", verb.interval, "Again after so many seconds");
  smi->add_option_function<std::string>(
         "--loop-ms", [&](const std::string& ms) { verb.interval = ms + "ms"; },
         "Again after so many milliseconds")
      ->excludes(seconds);
  smi->add_flag_callback(
      "--help-query-gpu", [&] { verb.action = QueryVerb::Action::list; }, "Show all fields");
  smi->callback([&] { chosen = verb; });
}

void add_energy(CLI::App& app, Verb& chosen, EnergyVerb& verb) {
  auto* energy = app.add_subcommand("energy", "Show what the GPUs used, or what a command uses");
  add_source(energy, verb.source);
  auto* command = energy->add_option("command", verb.command, "What to run and measure, after --");
  energy
      ->add_option("--gpu,--gpus", verb.gpus, "Measure these GPUs: indexes, UUIDs or PCI addresses")
      ->type_name("GPU")
      ->needs(command);
  energy->add_option("--report", verb.report, "Write what was measured as JSON to FILE (-: stdout)")
      ->type_name("FILE")
      ->needs(command);
  energy->add_flag("--json", verb.json, "Print JSON; of a command, on stderr");
  energy->callback([&] { chosen = verb; });
}

void add_schema(CLI::App& app, Verb& chosen, SchemaVerb& verb) {
  auto* schema = app.add_subcommand("schema", "Print the JSON Schema of what --json prints");
  schema->add_option("name", verb.name, "Without a name: which there are");
  schema->callback([&] { chosen = verb; });
}

CompletableVerb words_of(const CLI::App& app) {
  CompletableVerb verb{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) continue;
    CompletableOption words{{}, option->get_description(), option->get_items_expected_max() > 0};
    for (const auto& name : option->get_lnames()) words.names.push_back("--" + name);
    for (const auto& name : option->get_snames()) words.names.push_back("-" + name);
    verb.options.push_back(std::move(words));
  }
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    verb.verbs.push_back(words_of(*below));
  }
  return verb;
}

void add_completion(CLI::App& app, Verb& chosen) {
  auto* completion = app.add_subcommand("completion", "Print a shell's script for completion");
  completion->require_subcommand(1);
  const auto shell = [&](const char* name, Shell which) {
    completion->add_subcommand(name, std::string("For ") + name)->callback([&app, &chosen, which] {
      chosen = CompletionVerb{completion_script(which, words_of(app))};
    });
  };
  shell("bash", Shell::bash);
  shell("zsh", Shell::zsh);
  shell("fish", Shell::fish);
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
    return sub;
  };
  using enum ConfigVerb::Action;
  action("init", init, "Print a commented configuration file");
  action("print", print, "Print the configuration in force")
      ->add_flag("--json", verb.json, "Print JSON");
  action("validate", validate, "Say whether the configuration is valid");
  action("path", path, "Print the files that are read, in order");
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

// CLI11 takes a word like [1,2] for two, also where it is one of somebody else's command.
constexpr char kProtected = '\x01';

std::vector<std::string> protected_words(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  for (auto word = std::ranges::find(words, "--"); word != words.end(); ++word) {
    if (word->starts_with('[')) word->insert(0, 1, kProtected);
  }
  return words;
}

template <class Which>
void unprotect(Which& verb) {
  if constexpr (requires { verb.command.front().front(); }) {
    for (std::string& word : verb.command) {
      if (word.starts_with(kProtected)) word.erase(0, 1);
    }
  }
}

}  // namespace

void add_color(CLI::App* verb, ColorWish& wish) {
  static const std::map<std::string, ColorWish> kWishes = {
      {"auto", ColorWish::automatic}, {"always", ColorWish::always}, {"never", ColorWish::never}};
  verb->add_option("--color", wish, "Colours: auto, always or never; NO_COLOR is obeyed")
      ->type_name("WHEN")
      ->transform(CLI::CheckedTransformer(kWishes));
}

std::variant<Verb, int> parse_command_line(int argc, const char* const* argv) {
  CLI::App app("Watches, controls, guards and shares the GPUs of a machine.", "gpuyard");
  app.require_subcommand(1);
  Verb chosen;
  ServeVerb serve;
  DevicesVerb devices;
  WatchVerb watch;
  RecordVerb record;
  ReplayVerb replay;
  EventsVerb events;
  HistoryVerb history;
  QueryVerb query;
  QueryVerb smi;
  ProcessesVerb processes;
  EnergyVerb energy;
  ControlVerbs control;
  LeaseVerbs leasing;
  AlertsVerb alerts;
  DoctorVerb doctor;
  SchemaVerb schema;
  DriverVerb driver;
  ConfigVerb config;
  VersionVerb version;
  SimVerb sim;
  add_devices(app, chosen, devices);
  add_watch(app, chosen, watch);
  add_record(app, chosen, record);
  add_replay(app, chosen, replay);
  add_events(app, chosen, events);
  add_history(app, chosen, history);
  add_query(app, chosen, query);
  add_processes(app, chosen, processes);
  add_smi(app, chosen, smi);
  add_energy(app, chosen, energy);
  add_leasing(app, chosen, leasing);
  add_alerts(app, chosen, alerts);
  add_control(app, chosen, control);
  add_reading(app, chosen, driver, "driver", "Show the versions of driver, CUDA and NVML");
  add_reading(app, chosen, doctor, "doctor", "Find out why there is no driver, GPU or daemon");
  add_serve(app, chosen, serve);
  add_config(app, chosen, config);
  add_sim(app, chosen, sim);
  auto* versions = app.add_subcommand("version", "Show the version of gpuyard");
  versions->add_flag("--json", version.json, "Print JSON");
  versions->callback([&] { chosen = version; });
  add_schema(app, chosen, schema);
  add_completion(app, chosen);
  auto words = protected_words(argc, argv);
  std::ranges::reverse(words);
  try {
    app.parse(std::move(words));
    refuse_empty_values(app);
    std::visit([](auto& verb) { unprotect(verb); }, chosen);
  } catch (const CLI::ParseError& error) {
    // Help is an answer (stdout, 0); everything else is the user's mistake (stderr, 2).
    return app.exit(error) == 0 ? 0 : exit_code_of(Errc::invalid);
  }
  return chosen;
}

}  // namespace gpuyard::cli
