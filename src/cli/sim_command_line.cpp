// The verbs of `gpuyard sim`: apart, because a world has as many words as all the rest.
#include "cli/sim_command_line.h"

#include <CLI/CLI.hpp>

#include "sim/setters_for.h"
#include "sim/world_record.h"

namespace gpuyard::cli {
namespace {

constexpr int kMostTimes = 1'000'000'000;

void add_broken_call(CLI::App* inject, SimVerb& verb, CLI::Option* clear) {
  auto* call = inject->add_option("--call", verb.call,
                                  "A driver call fails or is slow (adds to its faults)");
  inject->add_option("--code", verb.code, "NVML return code of that call")->needs(call);
  inject->add_option("--latency-ms", verb.latency_ms, "That call takes so long")->needs(call);
  inject->add_flag("--never-returns", verb.never_returns, "That call blocks until --clear")
      ->needs(call);
  inject->add_option("--times", verb.times, "Only the first N of them in each program")
      ->type_name("N")
      ->check(CLI::Range(1, kMostTimes))
      ->needs(call);
  clear->excludes(call);
}

// An index, or all.
void add_gpu(CLI::App* sub, int& gpu) {
  const auto all = [](std::string& text) -> std::string {
    if (text == "all") text = std::to_string(sim::kEveryGpu);
    return "";
  };
  sub->add_option("--gpu", gpu, "Index of the GPU, or all")
      ->type_name("GPU")
      ->transform(CLI::Validator(all, "", ""))
      ->required();
}

void add_states(CLI::App* inject, SimVerb& verb, CLI::Option* clear) {
  const auto bad = [&](CLI::Option* state) {
    clear->excludes(state);
    return state;
  };
  bad(inject->add_flag("--lost", verb.lost, "The GPU falls off the bus (adds to its faults)"));
  bad(inject->add_flag("--reset-required", verb.reset_required, "Its calls fail until sim reset"));
  bad(inject->add_flag("--power-brake", verb.power_brake, "The board brakes its clocks"));
  bad(inject->add_option("--row-remap", verb.row_remap, "A row remapping is pending or failed"))
      ->check(CLI::IsMember({"pending", "failed"}));
  bad(inject->add_option("--fan", verb.fan, "Its fans are stuck at so many percent"))
      ->check(CLI::Range(0, 100));
  bad(inject->add_option("--pcie-generation", verb.pcie_generation, "Its link is no faster"))
      ->check(CLI::Range(1, 5));
  bad(inject->add_option("--pcie-width", verb.pcie_width, "Its link has no more lanes"))
      ->check(CLI::IsMember({1, 2, 4, 8, 16}));
}

void add_inject(CLI::App* inject, SimVerb& verb) {
  add_gpu(inject, verb.gpu);
  auto* clear = inject->add_flag("--clear", verb.clear, "The GPU has no fault any more");
  add_states(inject, verb, clear);
  add_broken_call(inject, verb, clear);
  inject->add_option("--xid", verb.xid, "The driver reports this Xid");
  inject->add_option("--ecc-corrected", verb.ecc_corrected, "So many single-bit memory errors");
  inject->add_option("--ecc-uncorrected", verb.ecc_uncorrected, "So many double-bit memory errors");
  inject->add_option("--ecc-location", verb.ecc_location,
                     "Where those are: l1_cache, l2_cache, device_memory, register_file, "
                     "texture_memory, texture_shared_memory, cbu, sram");
  inject->add_option("--heat", verb.heat, "Its surroundings are so many degrees C hotter");
  inject->add_option("--memory-heat", verb.memory_heat, "Its memory is so many degrees C hotter");
}

CLI::Option* add_driver_version(CLI::App* sub, SimVerb& verb) {
  return sub->add_option("--driver-version", verb.driver_version, "Such as 550.54.15")
      ->type_name("VERSION");
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

void add_reset(CLI::App* reset, SimVerb& verb) {
  reset->add_option("--gpu", verb.gpu_name, "Index, UUID or PCI address of the GPU, or all")
      ->type_name("GPU")
      ->required();
  reset->add_flag("--as-driver", verb.as_driver,
                  "Not while a program has the driver open, as a real driver");
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
  const auto setters = sim::setters_names();
  auto* scenario = start->add_option("--scenario", verb.scenario,
                                     "File that says all of this, and what happens when");
  scenario->type_name("FILE");
  start->add_option("--gpus", verb.gpus, "How many GPUs (8, where the model says no count)")
      ->check(CLI::Range(1, kMostGpus));
  add_model(start, verb.model);
  start->add_option("--load", verb.load,
                    "What they do: KIND[:LOAD[:VRAM]], KIND of idle, steady, "
                    "training, bursty, mixed");
  start
      ->add_option("--setters", verb.setters,
                   "Who may change settings: owner (and root), everyone, root, nobody")
      ->check(CLI::IsMember(std::vector<std::string>(setters.begin(), setters.end())));
  add_driver_version(start, verb);
  start
      ->add_option("--process-entries", verb.process_entry_bytes,
                   "Bytes of an entry of the newest process lists; some 535 drivers have 16 or 32")
      ->check(CLI::IsMember({16, 24, 32}));
  start->add_option("--missing", verb.missing, "A function that its NVML lacks (repeatable)")
      ->type_name("FUNCTION")
      ->allow_extra_args(false);
  auto* speed = start->add_option("--speed", verb.speed, "Simulated seconds in a real one");
  start->add_flag("--stepped", verb.stepped, "Time stands still but for sim step")->excludes(speed);
  for (CLI::Option* option : start->get_options()) {
    const std::string name = option->get_name();
    if (name != "--world" && name != "--help" && option != scenario) scenario->excludes(option);
  }
}

// `action` adds a verb below another: (parent, name, action, summary).
template <class Add>
void add_sim_driver(CLI::App* sim, SimVerb& verb, Add&& action) {
  using enum SimVerb::Action;
  auto* driver = sim->add_subcommand("driver", "Unload, load or reload the simulated driver");
  driver->require_subcommand(1);
  auto* reload = action(driver, "reload", driver_reload, "Every program must initialise anew");
  add_driver_version(reload, verb);
  reload->add_option("--for", verb.time, "It is away so long, in the world's time")
      ->type_name("TIME");
  action(driver, "unload", driver_unload, "There is no driver");
  add_driver_version(action(driver, "load", driver_load, "There is one again"), verb);
}

}  // namespace

CLI::Option* add_model(CLI::App* verb, std::string& model) {
  return verb->add_option("--model", model,
                          "Model of the simulated GPUs, or several: a100:2,h100:4,t4");
}

void add_sim(CLI::App& app, Verb& chosen, SimVerb& verb) {
  auto* sim = app.add_subcommand("sim", "Simulated GPUs for trying and testing");
  sim->require_subcommand(1);
  const auto action_of = [&](CLI::App* parent, const char* name, SimVerb::Action what,
                             const char* summary) {
    auto* sub = parent->add_subcommand(name, summary);
    sub->add_option("--world", verb.world, "Directory of the world (or GPUYARD_SIM_WORLD)");
    sub->callback([&chosen, &verb, what] {
      verb.action = what;
      chosen = verb;
    });
    return sub;
  };
  const auto action = [&](const char* name, SimVerb::Action what, const char* summary) {
    return action_of(sim, name, what, summary);
  };
  using enum SimVerb::Action;
  add_start(action("start", start, "Start a world"), verb);
  action("validate", validate, "Say whether a scenario file is valid")
      ->add_option("file", verb.scenario, "The scenario")
      ->type_name("FILE")
      ->required();
  action("status", status, "Show a world")->add_flag("--json", verb.json, "Print JSON");
  action("stop", stop, "Stop a world");
  auto* loaded = action("load", load, "Give one GPU something to do");
  add_gpu(loaded, verb.gpu);
  loaded->add_option("workload", verb.load, "KIND[:LOAD[:VRAM]]")->required();
  add_run(action("run", run, "Run a command that uses one GPU"), verb);
  add_attach(action("attach", attach, "Put a running process on a GPU"), verb);
  add_inject(action("inject", inject, "Break one GPU"), verb);
  add_reset(action("reset", reset, "Reset one GPU"), verb);
  add_gpu(action("unplug", unplug, "Take one GPU away"), verb.gpu);
  auto* plugged = action("plug", plug, "Give an unplugged GPU back");
  plugged->add_option("--uuid", verb.uuid, "Which, where several are unplugged")->type_name("UUID");
  plugged->add_option("--index", verb.index, "Under this index; else where it was")
      ->type_name("N")
      ->check(CLI::Range(0, kMostGpus - 1));
  action("step", step, "Move a stepped world on")
      ->add_option("time", verb.time, "By 10ms, 10s, 2m, 1h of its time")
      ->required();
  add_sim_driver(sim, verb, action_of);
}

}  // namespace gpuyard::cli
