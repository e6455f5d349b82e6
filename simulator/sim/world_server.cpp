#include "sim/world_server.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "sim/driver_commands.h"
#include "sim/gpu_commands.h"
#include "sim/memory_errors.h"
#include "sim/physics.h"

namespace gpuyard::sim {
namespace {

// The most steps that a delayed world server catches up; further time is skipped.
constexpr std::uint64_t kMaxCatchUpSteps = 200;  // of real time

constexpr std::uint64_t kXidDoubleBitEcc = 48;

constexpr std::uint64_t kMaxStepsPerCommand = 10'000;  // a command must be answered within 2 s

std::string text_of(const Command& command) {
  return {command.text, ::strnlen(command.text, sizeof command.text)};
}

}  // namespace

WorldServer::WorldServer(World world, WorldWriter writer, ProcessExitMonitor exit_monitor)
    : world_(std::move(world)),
      writer_(std::move(writer)),
      exit_monitor_(std::move(exit_monitor)),
      sender_(own_peer()),
      logged_session_(world_.driver.session),
      logged_loaded_(world_.driver.loaded) {}

void WorldServer::advance(std::uint64_t steps) {
  if (world_.time.mode != TimeMode::stepped) {
    const auto real = static_cast<double>(std::min(steps, kMaxCatchUpSteps));
    step_remainder_ += real * world_.time.speed;
    const auto whole = static_cast<std::uint64_t>(step_remainder_);
    step_remainder_ -= static_cast<double>(whole);
    run_steps(whole);
  }
  writer_.publish(world_);
}

void WorldServer::run_steps(std::uint64_t steps) {
  for (std::uint64_t i = 0; i < steps; ++i) {
    step(world_, kStep);
    load_due_driver(world_);
    log_driver_changes();
    run_due_commands();
  }
}

void WorldServer::set_timeline(std::vector<TimedCommand> timeline) {
  timeline_ = std::move(timeline);
  world_.timeline_entries = static_cast<std::uint32_t>(timeline_.size());
  run_due_commands();
  writer_.publish(world_);
}

// Executes the timeline's commands that are due. Some are refused only now: a reset while processes
// run, a GPU that is unplugged.
void WorldServer::run_due_commands() {
  while (world_.timeline_done < timeline_.size() &&
         timeline_[world_.timeline_done].at <= world_.age()) {
    const auto done = execute_checked(timeline_[world_.timeline_done].command);
    ++world_.timeline_done;
    if (!done) ++world_.timeline_refused;
  }
}

Result<void> WorldServer::execute_step(std::uint64_t count) {
  if (world_.time.mode != TimeMode::stepped) {
    return Error{Errc::conflict, "this world's time runs by itself", "",
                 "gpuyard sim start --stepped"};
  }
  if (count > kMaxStepsPerCommand) return Error{Errc::invalid, "too many steps at once"};
  run_steps(count);
  return {};
}

Reply WorldServer::execute(const Command& command, const Peer& peer) {
  if (command.verb != Verb::set && !peer.is_owner) {
    return reply_of(Error{Errc::denied, "this simulated world belongs to another user"});
  }
  sender_ = peer;
  const Reply reply = command.verb == Verb::set ? set(command) : reply_of(execute_checked(command));
  sender_ = own_peer();
  writer_.publish(world_);
  return reply;
}

Result<void> WorldServer::execute_checked(const Command& command) {
  switch (command.verb) {
    case Verb::stop:
      stopping_ = true;
      return {};
    case Verb::step:
      return execute_step(command.count);
    case Verb::unload_driver:
    case Verb::load_driver:
    case Verb::reload_driver:
    case Verb::plug:
      return change_world(command);
    default:
      break;
  }
  if (command.gpu == kEveryGpu) return change_all(command);
  if (command.gpu >= world_.order.size()) {
    return Error{Errc::not_found, fmt::format("the simulated world has no GPU {}", command.gpu)};
  }
  return change(world_.order[command.gpu], command);
}

Result<void> WorldServer::change_world(const Command& command) {
  const std::string text = text_of(command);
  Result<void> done;
  if (command.verb == Verb::unload_driver) done = unload_driver(world_);
  if (command.verb == Verb::load_driver) done = load_driver(world_, text);
  if (command.verb == Verb::reload_driver) {
    if (!(command.load >= 0.0) || command.load > 1e6) {
      return Error{Errc::invalid, "invalid time for the driver to stay unloaded"};
    }
    done =
        reload_driver(world_, std::chrono::milliseconds(std::llround(command.load * 1000.0)), text);
  }
  if (command.verb == Verb::plug) {
    done = plug(world_, text, command.gpu == kEveryGpu ? std::nullopt : std::optional(command.gpu));
  }
  if (done) writer_.publish_processes(world_);
  log_driver_changes();
  return done;
}

// Changes every GPU, and stops at the first that fails.
Result<void> WorldServer::change_all(const Command& command) {
  if (command.verb == Verb::inject) return inject_all(command.fault);
  if (command.verb == Verb::clear_faults) world_.fault = {};
  const std::vector<std::uint32_t> places = world_.order;
  for (const std::uint32_t place : places) {
    if (auto done = change(place, command); !done) return done;
  }
  return {};
}

// States are added to each GPU; failing calls are added to the driver, as they fail before the
// driver looks for the GPU.
Result<void> WorldServer::inject_all(Fault fault) {
  if (auto plausible = check_fault(fault); !plausible) return plausible;
  for (const std::uint32_t place : world_.order) {
    if (auto possible = check_fault_on(*world_.gpus[place].model, fault); !possible) {
      return possible;
    }
  }
  number_calls(fault, world_.fault_count);
  Fault calls;
  std::swap(calls.calls, fault.calls);
  if (auto added = add_fault(world_.fault, calls); !added) return added;
  for (const std::uint32_t place : world_.order) {
    static_cast<void>(add_fault(world_.gpus[place].fault, fault).ok());
  }
  return {};
}

Result<void> WorldServer::change(std::uint32_t place, const Command& command) {
  Gpu& gpu = world_.gpus[place];
  switch (command.verb) {
    case Verb::attach:
      return attach(gpu, command.process);
    case Verb::set_synthetic:
      return set_synthetic(gpu, command.count, command.process);
    case Verb::add_ecc_errors:
      return add_ecc_errors(place, command);
    case Verb::raise_event:
      if (command.count > kMaxXid) return Error{Errc::invalid, "not an Xid"};
      log_event(place, kEventXid, command.count);
      return {};
    case Verb::unplug:
      unplug(world_, place);
      writer_.publish_processes(world_);
      return {};
    case Verb::inject:
      return inject(gpu, command.fault, world_.fault_count);
    case Verb::reset:
      return reset(place, command.count != 0);
    case Verb::set_load:
      return set_load(gpu, command, world_.elapsed);
    default:
      return change_gpu(gpu, command);
  }
}

Result<void> WorldServer::add_ecc_errors(std::uint32_t place, const Command& command) {
  const MemoryErrors errors{
      .location = command.location,
      .uncorrected = command.uncorrected != 0,
      .count = static_cast<std::uint32_t>(std::min<std::uint64_t>(command.count, UINT32_MAX))};
  if (auto added = add_memory_errors(world_.gpus[place], errors); !added) return added;
  log_event(place, errors.uncorrected ? kEventDoubleBitEcc : kEventSingleBitEcc, 0);
  if (errors.uncorrected) log_event(place, kEventXid, kXidDoubleBitEcc);
  return {};
}

void WorldServer::log_event(std::uint32_t place, std::uint64_t type, std::uint64_t data) {
  writer_.log_event({.type = type, .data = data, .gpu = place});
}

// A world server and the processes on its GPUs.
namespace {

constexpr std::uint32_t kFullPermille = 1000;  // permille

bool is_synthetic(const ProcessRecord& process) {
  return process.pid > kMaxRealPid;
}

// nvmlComputeMode_t says how many processes may compute.
Result<void> check_compute_mode(const Gpu& gpu, std::size_t processes_after) {
  constexpr std::uint32_t kProhibited = 2;
  constexpr std::uint32_t kExclusiveProcess = 3;
  const std::uint32_t mode = gpu.settings.compute_mode;
  if (mode == kProhibited && processes_after > 0) {
    return Error{Errc::conflict, "the compute mode of this GPU prohibits processes"};
  }
  if (mode == kExclusiveProcess && processes_after > 1) {
    return Error{Errc::conflict, "the compute mode of this GPU allows only one process"};
  }
  return {};
}

}  // namespace

Result<void> WorldServer::attach(Gpu& gpu, const ProcessRecord& requested) {
  ProcessRecord process = requested;
  process.since_ns = boot_time_ns();
  // Attaching a process again replaces its demand; it has used the GPU since it came.
  const auto same = [&](const ProcessRecord& other) {
    return other.pid == process.pid && other.start_time == process.start_time;
  };
  if (is_synthetic(process)) return Error{Errc::invalid, "not the pid of a process"};
  std::vector<ProcessRecord> after = gpu.processes.list();
  if (const auto before = std::ranges::find_if(after, same); before != after.end()) {
    process.since_ns = before->since_ns;
    after.erase(before);
  }
  after.push_back(process);
  if (auto watched = exit_monitor_.watch({process.pid, process.start_time}); !watched)
    return watched;
  return put_processes(gpu, std::move(after));
}

Result<void> WorldServer::set_synthetic(Gpu& gpu, std::uint64_t count, const ProcessRecord& each) {
  if (count > kMaxProcesses) {
    return Error{Errc::invalid,
                 fmt::format("a simulated world holds at most {} processes", kMaxProcesses)};
  }
  std::vector<ProcessRecord> after = gpu.processes.list();
  std::erase_if(after, is_synthetic);
  ProcessRecord process = each;
  process.start_time = 0;
  process.since_ns = boot_time_ns();
  process.pid = kMaxRealPid + gpu.identity.minor_number * kMaxProcesses;
  for (std::uint64_t i = 0; i < count; ++i) {
    ++process.pid;
    after.push_back(process);
  }
  return put_processes(gpu, std::move(after));
}

Result<void> WorldServer::put_processes(Gpu& gpu, std::vector<ProcessRecord> list) {
  std::size_t total = list.size();
  for (const Gpu& other : world_.gpus) {
    if (&other != &gpu) total += other.processes.list().size();
  }
  if (total > kMaxProcesses) {
    return Error{Errc::busy,
                 fmt::format("a simulated world holds at most {} processes", kMaxProcesses)};
  }
  if (auto admitted = check_compute_mode(gpu, list.size()); !admitted) return admitted;
  ProcessSet after(std::move(list));
  if (after.max_load_permille() > kFullPermille)
    return Error{Errc::invalid, "the load must be 0 to 1"};
  if (!after.memory_bytes() || *after.memory_bytes() > usable_memory(*gpu.model)) {
    return Error{Errc::conflict, "out of memory: the processes would use more than this GPU has"};
  }
  gpu.processes = std::move(after);
  writer_.publish_processes(world_);
  return {};
}

void WorldServer::remove_exited() {
  const std::vector<ProcessKey> dead = exit_monitor_.take_exited();
  if (dead.empty()) return;
  for (Gpu& gpu : world_.gpus) {
    gpu.processes.erase_if([&](const ProcessRecord& process) {
      return std::ranges::find(dead, ProcessKey{process.pid, process.start_time}) != dead.end();
    });
  }
  writer_.publish_processes(world_);
  writer_.publish(world_);
}

}  // namespace gpuyard::sim
