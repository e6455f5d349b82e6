#include "sim/scenario_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/driver_commands.h"
#include "sim/gpu_commands.h"
#include "sim/memory_errors.h"

namespace gpuyard::sim {
namespace {

constexpr std::int64_t kMaxFaultTimes = 1'000'000'000;
constexpr double kMaxHeat = 100.0;

std::uint32_t small(std::optional<std::int64_t> value) {
  return static_cast<std::uint32_t>(value.value_or(0));
}

Command command_of(Verb verb) {
  Command command;
  command.verb = verb;
  return command;
}

void put_text(Command& command, const std::string& text) {
  text.copy(command.text, sizeof command.text - 1);
}

void put_states(ScenarioTable& entry, Fault& fault) {
  fault.lost = entry.flag("lost") ? 1 : 0;
  fault.reset_required = entry.flag("reset_required") ? 1 : 0;
  fault.power_brake = entry.flag("power_brake") ? 1 : 0;
  const auto remap = entry.one_of("row_remap", {"pending", "failed"});
  fault.rows_pending = remap == "pending" ? 1 : 0;
  fault.rows_failed = remap == "failed" ? 1 : 0;
  const auto fan = entry.integer("fan", 0, 100);
  fault.fans_stuck = fan ? 1 : 0;
  fault.fan_percent = small(fan);
  fault.pcie_generation = small(entry.integer("pcie_generation", 1, 5));
  fault.pcie_width = small(entry.integer("pcie_width", 1, 16));
  fault.nvlinks_down = small(entry.integer("nvlink_down", 1, kMaxNvLinks));
  const auto recovery = entry.one_of("recovery_action", recovery_action_names());
  fault.recovery_action = recovery_action_from_name(recovery.value_or(""));
}

std::string call_names() {
  std::string names;
  for (std::size_t i = 1; i < kCallCount; ++i) {
    names += (i > 1 ? ", " : "") + std::string(name_of(static_cast<Call>(i)));
  }
  return names;
}

void put_call(ScenarioTable& entry, CallFault& fault) {
  const auto name = entry.text("call");
  const auto code = entry.integer("code", 1, 999);
  const auto latency = entry.integer("latency_ms", 1, 3'600'000);
  const auto times = entry.integer("times", 1, kMaxFaultTimes);
  const bool never = entry.flag("never_returns");
  if (!name) {
    if (code || latency || times || never) entry.add_error("needs call = \"...\" for that");
    return;
  }
  const auto call = call_from_name(*name);
  if (!call) {
    entry.add_error("call", fmt::format("unknown \"{}\"; use one of {}", *name, call_names()));
    return;
  }
  fault = {.call = *call,
           .code = static_cast<std::int32_t>(code.value_or(0)),
           .latency_ms = never ? kInfiniteLatency : small(latency),
           .times = small(times)};
  if (!code && !latency && !never) {
    entry.add_error("call", "missing fault: code, latency_ms or never_returns");
  }
}

void add_fault_command(ScenarioTable& entry, std::vector<Command>& out) {
  Command command = command_of(Verb::inject);
  put_states(entry, command.fault);
  put_call(entry, command.fault.calls[0]);
  if (command.fault == Fault{}) return;
  if (const auto good = check_fault(command.fault); !good) entry.add_error(good.error().text());
  out.push_back(command);
}

void add_memory_errors(ScenarioTable& entry, std::vector<Command>& out) {
  const auto corrected = entry.integer("ecc_corrected", 1, kMaxErrorsPerCommand);
  const auto uncorrected = entry.integer("ecc_uncorrected", 1, kMaxErrorsPerCommand);
  const auto where = entry.text("ecc_location");
  const auto location = ecc_location_from_name(where.value_or("device_memory"));
  if (!location)
    entry.add_error("ecc_location", fmt::format("unknown memory location \"{}\"", *where));
  const auto add = [&](std::optional<std::int64_t> count, std::uint32_t is_uncorrected) {
    if (!count || !location) return;
    Command command = command_of(Verb::add_ecc_errors);
    command.location = *location;
    command.uncorrected = is_uncorrected;
    command.count = static_cast<std::uint64_t>(*count);
    out.push_back(command);
  };
  add(corrected, 0);
  add(uncorrected, 1);
}

void add_heat(ScenarioTable& entry, std::vector<Command>& out) {
  for (const auto& [key, verb] :
       {std::pair("heat", Verb::set_heat), std::pair("memory_heat", Verb::set_memory_heat)}) {
    const auto degrees = entry.number(key, 0.0, kMaxHeat);
    if (!degrees) continue;
    Command command = command_of(verb);
    command.load = *degrees;
    out.push_back(command);
  }
}

// The commands on a named GPU, in this order: first those that repair it, then those that harm it.
std::vector<Command> commands_on_gpus(ScenarioTable& entry) {
  std::vector<Command> out;
  if (entry.flag("clear")) out.push_back(command_of(Verb::clear_faults));
  if (entry.flag("reset")) out.push_back(command_of(Verb::reset));
  if (const auto load = entry.parsed("workload", parse_workload)) {
    out.push_back(load_command(0, *load));
  }
  add_heat(entry, out);
  add_fault_command(entry, out);
  add_memory_errors(entry, out);
  if (const auto xid = entry.integer("xid", 0, std::int64_t{kMaxXid})) {
    out.push_back(command_of(Verb::raise_event));
    out.back().count = static_cast<std::uint64_t>(*xid);
  }
  if (entry.flag("unplug")) out.push_back(command_of(Verb::unplug));
  return out;
}

// The commands on the driver and for plugging in: they name no GPU by its current index.
void add_driver(ScenarioTable& entry, std::vector<Command>& out) {
  const auto what = entry.one_of("driver", {"reload", "unload", "load"});
  const auto away = entry.parsed("away", parse_time);
  const auto version = entry.text("driver_version");
  if (version) {
    const auto good = check_driver_version(*version);
    if (!good) entry.add_error("driver_version", good.error().text());
  }
  if (away && what != "reload") entry.add_error("away", "only allowed with driver = \"reload\"");
  if (version && (!what || what == "unload")) {
    entry.add_error("driver_version", "only allowed with driver = \"reload\" or \"load\"");
  }
  if (!what) return;
  Command command = command_of(what == "unload" ? Verb::unload_driver
                               : what == "load" ? Verb::load_driver
                                                : Verb::reload_driver);
  command.load = std::chrono::duration<double>(away.value_or(std::chrono::seconds{0})).count();
  put_text(command, version.value_or(""));
  out.push_back(command);
}

void add_plug(ScenarioTable& entry, const Fleet& fleet, std::vector<Command>& out) {
  const auto last = static_cast<std::int64_t>(fleet.size()) - 1;
  const auto which = entry.integer("plug", 0, last);
  const auto index = entry.integer("index", 0, last);
  if (index && !which) entry.add_error("index", "only allowed with plug = N");
  if (!which) return;
  Command command = command_of(Verb::plug);
  command.gpu = index ? small(index) : kEveryGpu;
  const World world = make_world(fleet, {});  // a GPU's UUID comes from its first index
  put_text(command, world.gpus[static_cast<std::size_t>(*which)].identity.uuid);
  out.push_back(command);
}

// Reports faults that a GPU of that model cannot have, before the world begins.
void check_models(ScenarioTable& entry, const Fleet& fleet, const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (command.verb != Verb::inject) continue;
    for (std::size_t index = 0; index < fleet.size(); ++index) {
      if (command.gpu != kEveryGpu && command.gpu != index) continue;
      const auto possible = check_fault_on(*fleet[index], command.fault);
      if (!possible) entry.add_error(possible.error().text());
    }
  }
}

}  // namespace

std::vector<std::uint32_t> read_gpus(ScenarioTable& table, std::size_t gpus) {
  const auto last = static_cast<std::int64_t>(gpus) - 1;
  const toml::node* named = table.node("gpu");
  std::vector<std::uint32_t> out;
  if (named == nullptr) return out;
  if (const auto* text = named->as_string(); text != nullptr && text->get() == "all") {
    return {static_cast<std::uint32_t>(kEveryGpu)};
  }
  const auto add = [&](const toml::node& node) {
    const auto* index = node.as_integer();
    const bool there = index != nullptr && index->get() >= 0 && index->get() <= last;
    if (there) out.push_back(static_cast<std::uint32_t>(index->get()));
    return there;
  };
  const auto* list = named->as_array();
  const bool good = list == nullptr
                        ? add(*named)
                        : !list->empty() && std::all_of(list->begin(), list->end(), add);
  if (good) return out;
  table.add_error(
      "gpu", fmt::format("must be an index from 0 to {}, a list of indexes, or \"all\"", last));
  return {};
}

std::vector<Command> commands_of(ScenarioTable& entry, const Fleet& fleet, bool fixed_places) {
  std::vector<Command> out;
  add_driver(entry, out);
  add_plug(entry, fleet, out);
  const std::vector<Command> each = commands_on_gpus(entry);
  const auto gpus = read_gpus(entry, fleet.size());
  if (!each.empty() && !entry.has("gpu")) entry.add_error("needs gpu = N for that");
  if (each.empty() && entry.has("gpu")) entry.add_error("names a GPU but no event");
  if (each.empty() && out.empty() && !entry.has("gpu")) entry.add_error("has no event");
  for (const std::uint32_t gpu : gpus) {
    for (Command command : each) {
      command.gpu = gpu;
      out.push_back(command);
    }
  }
  if (fixed_places) check_models(entry, fleet, out);
  return out;
}

}  // namespace gpuyard::sim
