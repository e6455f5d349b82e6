#include "cli/top/action.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "base/try.h"
#include "cli/lease/lease_text.h"
#include "cli/read/gpu_filter.h"
#include "cli/top/model.h"
#include "faces/protocol/leases.h"
#include "gpu/device/catalog.h"

namespace gpuyard::cli::top {
namespace {

using protocol::Alert;
using protocol::Device;
using protocol::Lease;
using protocol::Process;

constexpr double kDefaultCapShare = 0.8;  // of the limit as it is: what the dialog offers

// The objects of the chosen row of the pane; null if the row has none of that type.
struct Selection {
  const Device* device = nullptr;
  const Process* process = nullptr;
  const Lease* lease = nullptr;
  const Alert* alert = nullptr;
};

const Lease* find_lease(const ScreenData& data, std::string_view id) {
  const auto is_it = [&](const Lease& lease) { return lease.id == id; };
  if (data.queue) {
    const auto found = std::ranges::find_if(data.queue->waiting, is_it);
    if (found != data.queue->waiting.end()) return &*found;
  }
  if (!data.leases) return nullptr;
  const auto found = std::ranges::find_if(data.leases->leases, is_it);
  return found != data.leases->leases.end() ? &*found : nullptr;
}

Selection selection_of(const Model& model) {
  Selection chosen;
  std::string_view name = list_of(model).selected;
  const auto take = [&](std::string_view prefix) { return take_prefix(name, prefix); };
  const auto& devices = model.data.snapshot.devices;
  const auto device_called = [&](std::string_view called) -> const Device* {
    const auto found = std::ranges::find_if(
        devices, [&](const Device& device) { return name_of(device) == called; });
    return found != devices.end() ? &*found : nullptr;
  };
  if (take(kLeasePrefix)) {
    chosen.lease = find_lease(model.data, name);
  } else if (take(kAlertPrefix) && model.data.alerts) {
    const auto& alerts = model.data.alerts->alerts;
    const auto found = std::ranges::find(alerts, parse_number<std::uint64_t>(name), &Alert::number);
    if (found != alerts.end()) chosen.alert = &*found;
  } else if (take(kProcessPrefix)) {
    chosen.device = device_called(name.substr(name.rfind(' ') + 1));
    if (chosen.device == nullptr || !chosen.device->processes) return chosen;
    for (const Process& process : *chosen.device->processes) {
      if (name_of(process, *chosen.device) == list_of(model).selected) chosen.process = &process;
    }
  } else {
    take(kWithheldPrefix);
    chosen.device = device_called(name);
  }
  if (chosen.device != nullptr && chosen.lease == nullptr && model.data.leases) {
    chosen.lease = cli::lease_of(*model.data.leases, chosen.device->uuid);
  }
  return chosen;
}

std::string gpu_label(const Device& device) {
  return fmt::format("GPU {}", device.index);
}

Result<Action> cap(const Model& model, const Selection& chosen) {
  if (chosen.device == nullptr) return Error{Errc::not_found, "no GPU selected"};
  const Device& device = *chosen.device;
  const auto* limit = device.readings.number(Metric::power_limit);
  if (!limit) return Error{Errc::unsupported, gpu_label(device) + " reports no power limit"};
  Action action{Command::cap, "Set the power limit of " + gpu_label(device)};
  action.subject = device.uuid;
  const double watts = static_cast<double>(*limit) / 1000;
  action.fields = {{"watts", std::to_string(std::lround(watts * kDefaultCapShare))},
                   {"for", "30m"}};
  action.about = chosen.lease != nullptr ? fmt::format("leased to {}, whose work will run slower",
                                                       holder_text(*chosen.lease))
                                         : "not leased";
  const bool own = chosen.lease != nullptr && model.uid == chosen.lease->uid;
  if (!own) action.confirmation = std::to_string(device.index);
  return action;
}

Result<Action> cordon(const Model& model, const Selection& chosen) {
  if (chosen.device == nullptr) return Error{Errc::not_found, "no GPU selected"};
  const Device& device = *chosen.device;
  const auto is_it = [&](const protocol::WithheldGpu& one) {
    return one.uuid == device.uuid && one.why == "cordoned";
  };
  Action action{Command::cordon, ""};
  action.lifts = model.data.queue && std::ranges::any_of(model.data.queue->withheld, is_it);
  action.title = (action.lifts ? "Uncordon " : "Cordon ") + gpu_label(device);
  action.subject = device.uuid;
  action.about =
      action.lifts ? "the GPU can be leased again" : "no new leases; a current lease continues";
  if (!action.lifts) action.fields = {{"reason"}};
  action.confirmation = std::to_string(device.index);
  return action;
}

Result<Action> acknowledge(const Selection& chosen) {
  if (chosen.alert == nullptr) return Error{Errc::not_found, "no alert selected"};
  Action action{Command::acknowledge, fmt::format("Acknowledge alert {}", chosen.alert->number)};
  action.about = chosen.alert->message + ": no more notifications until it is resolved";
  action.subject = std::to_string(chosen.alert->number);
  action.fields = {{"note", "", true}};
  return action;
}

Result<Action> silence(const Selection& chosen) {
  if (chosen.alert == nullptr) return Error{Errc::not_found, "no alert selected"};
  std::string what = chosen.alert->rule;
  Action action{Command::silence, ""};
  action.rule = chosen.alert->rule;
  action.about = "no notifications of this alert during this time";
  if (chosen.alert->device) {
    action.subject = chosen.alert->device->uuid;
    const auto& index = chosen.alert->device->index;
    what += index ? fmt::format(" on GPU {}", *index) : " on " + action.subject;
  }
  action.title = "Silence " + what;
  action.done = "Silenced " + what;
  action.fields = {{"for", "1h"}};
  return action;
}

Result<Action> release(const Model& model, const Selection& chosen) {
  if (chosen.lease == nullptr) return Error{Errc::not_found, "no lease selected"};
  const Lease& lease = *chosen.lease;
  const bool waits = lease.gpus.empty();
  Action action{Command::release,
                fmt::format("{} of {}", waits ? "Cancel the claim" : "Release the lease",
                            holder_text(lease))};
  action.done = fmt::format("{} of {}", waits ? "Cancelled the claim" : "Released the lease",
                            holder_text(lease));
  action.subject = lease.id;
  const auto wanted = std::max<std::int64_t>(lease.wanted_gpus, 0);
  action.about = waits ? "the claim is waiting for " + number_of_gpus(wanted)
                       : number_of_gpus(std::ssize(lease.gpus)) +
                             " can be leased again once the processes of the lease have exited";
  // The owner of a lease on another machine is not known here; the daemon checks it.
  action.forced = model.uid && model.uid != lease.uid;
  if (action.forced) action.fields = {{"reason"}};
  if (model.uid != lease.uid) action.confirmation = holder_text(lease);
  return action;
}

Result<ProcessKey> selected_process_key(const Selection& chosen) {
  if (chosen.process == nullptr) return Error{Errc::not_found, "no process selected"};
  return ProcessKey{chosen.process->pid, chosen.process->started_after_boot_ms,
                    chosen.process->uid};
}

std::string describe_process(const Process& process) {
  return fmt::format("{} of {}", process.command.value_or("?"),
                     process.user.value_or(process.uid ? std::to_string(*process.uid) : "?"));
}

Result<Action> adopt(const Model& model, const Selection& chosen) {
  auto process = GPUYARD_TRY(selected_process_key(chosen));
  const auto& queue = model.data.queue;
  if (queue &&
      std::ranges::count(queue->squatters, process.pid, &protocol::UnleasedProcess::pid) == 0) {
    return Error{Errc::conflict,
                 fmt::format("process {} uses no GPU without a lease", process.pid)};
  }
  Action action{Command::adopt, fmt::format("Adopt the GPUs of process {}", process.pid)};
  action.about =
      describe_process(*chosen.process) + " gets a lease of the GPUs in use by this process";
  action.done = fmt::format("Adopted the GPUs of process {}", process.pid);
  action.subject = std::to_string(process.pid);
  action.process = process;
  return action;
}

Result<Action> signal_to(const Model& model, const Selection& chosen) {
  auto process = GPUYARD_TRY(selected_process_key(chosen));
  Action action{Command::signal, fmt::format("Send a signal to process {}", process.pid)};
  action.about = describe_process(*chosen.process);
  action.subject = std::to_string(process.pid);
  action.process = process;
  action.fields = {{"signal", "TERM"}};
  if (!model.uid || model.uid != process.uid) action.confirmation = action.subject;
  return action;
}

Result<Action> undo(const Model& model) {
  if (model.undo.empty()) return Error{Errc::not_found, "nothing to undo"};
  Action action{Command::undo, "Undo the last change"};
  action.undo_command = model.undo;
  return action;
}

}  // namespace

bool is_applicable(const Model& model, Command command) {
  if (command == Command::undo) return !model.undo.empty();
  if (command == Command::verb) return true;
  const auto is = [&](std::initializer_list<Command> ones) {
    return std::ranges::find(ones, command) != ones.end();
  };
  switch (model.pane) {
    case Pane::overview:
    case Pane::gpu:
      return is({Command::cap, Command::cordon, Command::release});
    case Pane::processes:
      return is({Command::signal, Command::adopt, Command::release, Command::cap});
    case Pane::queue:
      return is({Command::release, Command::cordon, Command::adopt, Command::signal});
    case Pane::alerts:
      return is({Command::acknowledge, Command::silence});
    case Pane::usage:
    case Pane::help:
      return false;
  }
  return false;
}

Result<Action> action_for(const Model& model, Command command) {
  const Selection chosen = selection_of(model);
  switch (command) {
    case Command::cap:
      return cap(model, chosen);
    case Command::cordon:
      return cordon(model, chosen);
    case Command::acknowledge:
      return acknowledge(chosen);
    case Command::silence:
      return silence(chosen);
    case Command::release:
      return release(model, chosen);
    case Command::adopt:
      return adopt(model, chosen);
    case Command::signal:
      return signal_to(model, chosen);
    case Command::undo:
      return undo(model);
    default:
      return Error{Errc::internal, "not an action"};
  }
}

std::vector<std::string> words_of(const Action& action) {
  switch (action.command) {
    case Command::cap:
      return {"power", action.subject, action.value(0), "--for", action.value(1)};
    case Command::cordon:
      if (action.lifts) return {"uncordon", action.subject};
      return {"cordon", action.subject, "--reason=" + action.value(0)};
    case Command::acknowledge:
      if (action.value(0).empty()) return {"alerts", "ack", action.subject};
      return {"alerts", "ack", action.subject, "--note=" + action.value(0)};
    case Command::silence:
      if (action.subject.empty()) {
        return {"alerts", "silence", "--rule", action.rule, "--for", action.value(0)};
      }
      return {"alerts", "silence", action.subject, "--rule", action.rule, "--for", action.value(0)};
    case Command::release:
      if (!action.forced) return {"lease", "release", action.subject};
      return {"lease", "release", action.subject, "--force", "--reason=" + action.value(0)};
    case Command::adopt:
      return {"lease", "adopt", "--pid", action.subject};
    case Command::signal:
      return {"kill", "-" + action.value(0), action.subject};
    case Command::undo:
      return action.undo_command;
    default:
      return {};
  }
}

std::vector<std::string> dry_run_words(const Action& action) {
  if (action.command != Command::cap) return {};
  auto words = words_of(action);
  words.emplace_back("--dry-run");
  return words;
}

std::vector<std::string> command_words(const Action& action) {
  auto words = words_of(action);
  if (!words.empty() && words.front() == "power") words.emplace_back("--yes");
  return words;
}

std::vector<std::string> undo_words(const Action& action) {
  if (action.command == Command::cap) return {"power", action.subject, "--restore"};
  if (action.command == Command::cordon && !action.lifts) return {"uncordon", action.subject};
  return {};
}

std::string shell_line(const Action& action, const std::string& host) {
  std::string line;
  const bool signals = action.command == Command::signal;
  if (!signals) line = host.empty() ? "gpuyard" : "gpuyard -H " + quote_shell_word(host);
  for (const std::string& word : words_of(action)) line += " " + quote_shell_word(word);
  return std::string(trim(line));
}

}  // namespace gpuyard::cli::top
