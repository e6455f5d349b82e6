// The options of gpuyard sim.
#include "cli/shared_options.h"
#include "daemon/config/config.h"
#include "sim/driver_commands.h"
#include "sim/gpu_commands.h"
#include "sim/scenario.h"
#include "sim/scenario_table.h"
#include "sim/world.h"
#include "sim/world_client.h"
#include "sim/world_record.h"

namespace gpuyard::cli {
namespace {

constexpr int kMaxFaultTimes = 1'000'000'000;

void add_broken_call(Options inject, SimVerb& verb, Option clear) {
  const Options broken = inject.heading("Driver calls");
  const Option call = broken
                          .option("--call", verb.call,
                                  "Make a driver call fail or slow down (adds to existing faults)")
                          .metavar("NAME");
  broken.option("--code", verb.code, "NVML code the call returns").metavar("N").needs(call);
  broken.option("--latency-ms", verb.latency_ms, "Delay of the call in milliseconds")
      .metavar("N")
      .needs(call);
  broken.flag("--never-returns", verb.never_returns, "Block the call until --clear").needs(call);
  broken.option("--times", verb.times, "Affect only the first N calls in each program")
      .metavar("N")
      .default_is("all")
      .range(1, kMaxFaultTimes)
      .needs(call);
  clear.excludes(call);
}

// An index, or all.
void add_gpu(Options sub, int& gpu) {
  sub.option("--gpu", gpu, "Index of the GPU, or all")
      .metavar("GPU")
      .word("all", sim::kEveryGpu)
      .required();
}

void add_states(Options inject, SimVerb& verb, Option clear) {
  const Options states = inject.heading("Faults");
  const auto bad = [&](Option state) {
    clear.excludes(state);
    return state;
  };
  bad(states.flag("--lost", verb.lost, "Make the GPU fall off the bus (adds to existing faults)"));
  bad(states.flag("--reset-required", verb.reset_required,
                  "Make calls to the GPU fail until `sim reset`"));
  bad(states.flag("--power-brake", verb.power_brake,
                  "Slow the clocks down by the hardware power brake"));
  bad(states.option("--row-remap", verb.row_remap, "Set row remapping to pending or failed"))
      .metavar("NAME")
      .one_of({"pending", "failed"});
  bad(states.option("--fan", verb.fan, "Stick the fans at this percentage"))
      .metavar("N")
      .range(0, 100);
  bad(states.option("--pcie-generation", verb.pcie_generation,
                    "Limit the PCIe link to this generation"))
      .metavar("N")
      .range(1, 5);
  bad(states.option("--pcie-width", verb.pcie_width, "Limit the PCIe link to this many lanes"))
      .metavar("N")
      .one_of({1, 2, 4, 8, 16});
  bad(states.option("--nvlink-down", verb.nvlink_down, "Take this many of its NVLinks down"))
      .metavar("N")
      .range(1, 18);
  const auto actions = sim::recovery_action_names();
  bad(states.option("--recovery-action", verb.recovery_action,
                    "Let the driver request this recovery, from 570 drivers on"))
      .metavar("NAME")
      .one_of(std::vector<std::string>(actions.begin(), actions.end()));
}

void add_inject(Options inject, SimVerb& verb) {
  add_gpu(inject, verb.gpu);
  const Option clear = inject.flag("--clear", verb.clear, "Clear all faults of the GPU");
  add_states(inject, verb, clear);
  add_broken_call(inject, verb, clear);
  const Options events = inject.heading("Events and heat");
  events.option("--xid", verb.xid, "Report this Xid error").metavar("N");
  events.option("--ecc-corrected", verb.ecc_corrected, "Add N corrected (single-bit) memory errors")
      .metavar("N");
  events
      .option("--ecc-uncorrected", verb.ecc_uncorrected,
              "Add N uncorrected (double-bit) memory errors")
      .metavar("N");
  events
      .option("--ecc-location", verb.ecc_location,
              "Location of the memory errors, e.g. device_memory, l2_cache or sram")
      .metavar("NAME")
      .default_is("device_memory");
  events.option("--heat", verb.heat, "Raise the ambient temperature by N degrees Celsius")
      .metavar("N");
  events
      .option("--memory-heat", verb.memory_heat,
              "Raise the memory temperature by N degrees Celsius")
      .metavar("N");
  inject.example("gpuyard sim inject --gpu 2 --lost")
      .example("gpuyard sim inject --gpu 0 --xid 79")
      .example("gpuyard sim inject --gpu all --clear");
}

Option add_driver_version(Options sub, SimVerb& verb) {
  return sub
      .option("--driver-version", verb.start.driver_version,
              "Driver version to simulate, e.g. 550.54.15")
      .metavar("TEXT");
}

void add_process(Options verb, SimVerb& what) {
  verb.option("--vram", what.vram, "GPU memory the process uses, e.g. 10G")
      .metavar("SIZE")
      .default_is("1G");
  verb.option("--load", what.process_load, "Share of GPU time the process uses, 0 to 1")
      .metavar("N")
      .default_is("1")
      .range(0.0, 1.0);
  verb.flag("--graphics", what.graphics, "Make it a graphics process instead of a compute process");
}

void add_run(Options run, SimVerb& verb) {
  run.option("--gpu", verb.gpu, "Index of the GPU").metavar("N").required();
  add_process(run, verb);
  run.command(verb.command, "Command to run, after --").required();
  run.example("gpuyard sim run --gpu 0 --vram 10G -- sleep 60");
}

void add_reset(Options reset, SimVerb& verb) {
  reset.option("--gpu", verb.gpu_name, "GPU to reset: index, UUID or PCI address, or all")
      .metavar("GPU")
      .required();
  reset.flag("--as-driver", verb.as_driver,
             "Fail while a program has the driver open, like a real driver");
  reset.example("gpuyard sim reset --gpu 2");
}

void add_attach(Options attach, SimVerb& verb) {
  const Option gpu = attach.option("--gpu", verb.attach_gpu, "Index of the GPU")
                         .metavar("N")
                         .default_is("from the process's CUDA_VISIBLE_DEVICES");
  const Options who = attach.alternatives();
  who.option("--pid", verb.pid, "Process to attach, until it exits").metavar("N").positive();
  who.option("--synthetic", verb.synthetic, "Replace the GPU's processes with N synthetic ones")
      .metavar("N")
      .needs(gpu);
  add_process(attach, verb);
  attach
      .usage({"gpuyard sim attach --pid N [OPTIONS]\tPut a real process on a GPU",
              "gpuyard sim attach --gpu N --synthetic N [OPTIONS]\tAdd synthetic processes"})
      .example("gpuyard sim attach --gpu 0 --pid 4711")
      .example("gpuyard sim attach --gpu 1 --synthetic 3");
}

void add_start(Options start, SimVerb& verb) {
  const Options fleet = start.heading("GPUs");
  const Option scenario =
      fleet.option("--scenario", verb.scenario, "Scenario file with all settings and timed events")
          .metavar("FILE");
  const auto own = [&](Option option) {
    scenario.excludes(option);
    return option;
  };
  own(fleet.option("--gpus", verb.start.gpus, "Number of GPUs"))
      .metavar("N")
      .default_is("8, unless --model gives counts")
      .range(1, kMaxGpus);
  own(add_model(fleet, verb.start.model));
  own(fleet.option("--machine", verb.start.machine,
                   "Machine name; each gives the GPUs other UUIDs and serial numbers"))
      .metavar("NAME");
  own(fleet.option("--load", verb.load,
                   "Workload of each GPU, e.g. idle, mixed or training:0.9:40G"))
      .metavar("KIND[:LOAD[:VRAM]]")
      .default_is("mixed")
      .details(
          "Workload of each GPU, as KIND[:LOAD[:VRAM]], with KIND idle, steady, training, "
          "bursty or mixed, e.g. training:0.9:40G.");
  const Options driver = start.heading("Driver");
  const auto setters = sim::setter_access_names();
  own(driver.option("--setters", verb.setters,
                    "Users allowed to change settings: owner (and root), everyone, root or nobody"))
      .metavar("NAME")
      .default_is("owner")
      .one_of(std::vector<std::string>(setters.begin(), setters.end()));
  own(add_driver_version(driver, verb));
  own(driver.option("--process-entries", verb.start.process_entry_bytes,
                    "Size of a process list entry in bytes: 16, 24 or 32"))
      .metavar("N")
      .default_is("24")
      .details("Size of an entry in NVML's process list, in bytes. Some 535 drivers use 16 or 32.")
      .one_of({16, 24, 32});
  own(driver.option("--missing", verb.start.missing, "NVML function to leave out; repeatable"))
      .metavar("NAME");
  own(driver.option("--suspend-after", verb.start.suspend_after_s,
                    "Let the kernel suspend a GPU that is unused for N seconds"))
      .metavar("N")
      .range(1, 3600);
  const Options time = start.heading("Time");
  const Option speed =
      own(time.option("--speed", verb.start.speed, "Simulated seconds per real second"))
          .metavar("FACTOR")
          .default_is("1");
  own(time.flag("--stepped", verb.start.stepped, "Stop time; advance it with `sim step`"))
      .excludes(speed);
  start.example("gpuyard sim start --gpus 4")
      .example("gpuyard sim start --model a100:2,h100:4,t4 --load training:0.9:40G")
      .example("gpuyard sim start --scenario night.toml");
}

// `action` adds a verb below another: (parent, name, action, summary).
template <class Add>
void add_sim_driver(Options sim, SimVerb& verb, Add&& action) {
  using enum SimVerb::Action;
  const Options driver = sim.verb("driver", "Unload, load or reload the simulated driver");
  driver.requires_verb().example("gpuyard sim driver reload --for 10s");
  const Options reload = action(driver, "reload", driver_reload,
                                "Reload the driver; every program must initialise NVML again");
  add_driver_version(reload, verb);
  reload.option("--for", verb.time, "How long the driver stays unloaded, in simulated time")
      .metavar("DURATION");
  reload.example("gpuyard sim driver reload --driver-version 550.54.15");
  action(driver, "unload", driver_unload, "Unload the driver").example("gpuyard sim driver unload");
  const Options loaded = action(driver, "load", driver_load, "Load the driver again");
  add_driver_version(loaded, verb);
  loaded.example("gpuyard sim driver load");
}

}  // namespace

Options add_sim(Options program, SimVerb& verb) {
  const Options sim = program.verb("sim", "Simulate GPUs for trying and testing");
  sim.requires_verb()
      .explain(
          "A world is a set of simulated GPUs with a driver library that any NVML program can "
          "load.")
      .example("gpuyard sim start --gpus 4")
      .example("gpuyard sim status")
      .example("gpuyard sim inject --gpu 2 --lost")
      .example("gpuyard sim stop");
  const auto action_of = [&](Options parent, const char* name, SimVerb::Action what,
                             const char* summary) {
    const Options sub = parent.verb(name, summary).sets(verb.action, what);
    sub.option("--world", verb.world, "Directory of the simulated world")
        .metavar("DIR")
        .default_is("the world of this user, or of the daemon")
        .environment("GPUYARD_SIM_WORLD");
    return sub;
  };
  const auto action = [&](const char* name, SimVerb::Action what, const char* summary) {
    return action_of(sim, name, what, summary);
  };
  using enum SimVerb::Action;
  add_start(action("start", start, "Start a simulated world"), verb);
  const Options validated = action("validate", validate, "Check a scenario file");
  validated.option("file", verb.scenario, "Scenario file").metavar("FILE").required();
  validated.example("gpuyard sim validate night.toml");
  const Options shown = action("status", status, "Show the state of a simulated world");
  add_json(shown, verb.json);
  shown.example("gpuyard sim status --json");
  action("stop", stop, "Stop a simulated world").example("gpuyard sim stop");
  const Options loaded = action("load", load, "Set the workload of a GPU");
  add_gpu(loaded, verb.gpu);
  loaded.option("workload", verb.load, "Workload, e.g. idle, mixed or training:0.9:40G")
      .metavar("KIND[:LOAD[:VRAM]]")
      .required();
  loaded.example("gpuyard sim load --gpu all training:0.9:40G");
  add_run(action("run", run, "Run a command as a process on a GPU"), verb);
  add_attach(action("attach", attach, "Put a running process on a GPU"), verb);
  add_inject(action("inject", inject, "Inject faults into a GPU"), verb);
  add_reset(action("reset", reset, "Reset a GPU"), verb);
  const Options unplugged = action("unplug", unplug, "Unplug a GPU");
  add_gpu(unplugged, verb.gpu);
  unplugged.example("gpuyard sim unplug --gpu 3");
  const Options plugged = action("plug", plug, "Plug an unplugged GPU back in");
  plugged.option("--uuid", verb.uuid, "UUID of the GPU, if several are unplugged").metavar("ID");
  plugged.option("--index", verb.index, "Index for the GPU")
      .metavar("N")
      .default_is("its previous index")
      .range(0, kMaxGpus - 1);
  plugged.example("gpuyard sim plug");
  const Options stepped = action("step", step, "Advance the time of a stepped world");
  stepped.option("time", verb.time, "Simulated time to advance by, e.g. 10ms, 10s, 2m or 1h")
      .metavar("DURATION")
      .required();
  stepped.example("gpuyard sim step 10s");
  add_sim_driver(sim, verb, action_of);
  return sim;
}

}  // namespace gpuyard::cli
