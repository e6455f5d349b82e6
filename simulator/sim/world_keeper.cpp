#include "sim/world_keeper.h"

#include <algorithm>

#include <fmt/format.h>

#include "nvml/abi.h"
#include "sim/apply_setting.h"
#include "sim/memory_errors.h"
#include "sim/physics.h"

namespace gpuyard::sim {
namespace {

// A keeper that was held up catches up this far; more is time that never happened.
constexpr std::uint64_t kMaxStepsAtOnce = 200;

constexpr std::uint64_t kMaxXid = 999;
constexpr std::uint64_t kXidDoubleBitEcc = 48;
constexpr std::uint32_t kWhole = 1000;  // permille
constexpr double kMostExtraHeat = 100.0;

Reply reply_of(const Result<void>& result) {
  Reply reply;
  if (result) return reply;
  reply.failed = 1;
  reply.errc = static_cast<std::uint32_t>(result.error().code);
  result.error().message.copy(reply.message, sizeof reply.message - 1);
  return reply;
}

Errc errc_of(nvml::ReturnCode code) {
  switch (code) {
    case nvml::kNoPermission:
      return Errc::denied;
    case nvml::kNotSupported:
      return Errc::unsupported;
    case nvml::kGpuIsLost:
      return Errc::device_lost;
    default:
      return Errc::invalid;
  }
}

bool is_synthetic(const ProcessRecord& process) {
  return process.pid > kLastRealPid;
}

// nvmlComputeMode_t says how many processes may compute.
Result<void> admits(const Gpu& gpu, std::size_t processes_after) {
  constexpr std::uint32_t kProhibited = 2;
  constexpr std::uint32_t kExclusiveProcess = 3;
  const std::uint32_t mode = gpu.settings.compute_mode;
  if (mode == kProhibited && processes_after > 0) {
    return Error{Errc::conflict, "the compute mode of this GPU prohibits processes"};
  }
  if (mode == kExclusiveProcess && processes_after > 1) {
    return Error{Errc::conflict, "the compute mode of this GPU admits one process"};
  }
  return {};
}

Result<void> set_load(Gpu& gpu, const Command& command) {
  if (command.workload_kind > WorkloadKind::mixed || !(command.load >= 0.0) || command.load > 1.0) {
    return Error{Errc::invalid, "not a workload"};
  }
  gpu.workload = {command.workload_kind, command.load, command.vram_bytes};
  return {};
}

Result<void> set_heat(Gpu& gpu, double degrees) {
  if (!(degrees >= 0.0 && degrees <= kMostExtraHeat)) {
    return Error{Errc::invalid, "extra heat is from 0 to 100 degrees"};
  }
  gpu.extra_heat = degrees;
  return {};
}

}  // namespace

WorldKeeper::WorldKeeper(World world, WorldWriter writer, ProcessWatch watch, SettersFor setters)
    : world_(std::move(world)),
      writer_(std::move(writer)),
      watch_(std::move(watch)),
      setters_(setters) {}

void WorldKeeper::advance(std::uint64_t steps) {
  for (std::uint64_t i = 0; i < std::min(steps, kMaxStepsAtOnce); ++i) step(world_, kStep);
  writer_.publish(world_);
}

Reply WorldKeeper::execute(const Command& command, const Peer& peer) {
  if (command.verb == Verb::set) return set(command, peer);
  if (!peer.is_owner) return reply_of(Error{Errc::denied, "another user's keeper"});
  if (command.verb == Verb::stop) {
    stopping_ = true;
    return {};
  }
  if (command.gpu >= world_.gpus.size()) {
    return reply_of(Error{Errc::not_found, fmt::format("the world has no GPU {}", command.gpu)});
  }
  const auto done = change(world_.gpus[command.gpu], command);
  writer_.publish(world_);
  return reply_of(done);
}

// Every setter call is logged, whatever becomes of it.
Reply WorldKeeper::set(const Command& command, const Peer& peer) {
  SettingWrite write = command.write;
  write.gpu = command.gpu;
  nvml::ReturnCode code = nvml::kInvalidArgument;
  if (command.gpu < world_.gpus.size()) {
    const bool allowed = peer.is_owner || setters_ == SettersFor::everyone;
    code = allowed ? apply_setting(world_.gpus[command.gpu], write) : nvml::kNoPermission;
  }
  writer_.log_write({.write = write,
                     .nvml_code = code,
                     .peer_pid = static_cast<std::uint32_t>(peer.pid),
                     .peer_uid = peer.uid});
  writer_.publish(world_);
  if (code == nvml::kSuccess) return {};
  Reply reply =
      reply_of(Error{errc_of(code), fmt::format("{}: NVML code {}", name_of(write.setting), code)});
  reply.nvml_code = code;
  return reply;
}

Result<void> WorldKeeper::change(Gpu& gpu, const Command& command) {
  switch (command.verb) {
    case Verb::inject:
      if (auto plausible = check_fault(command.fault); !plausible) return plausible;
      return add_fault(gpu.fault, command.fault);
    case Verb::clear_faults:
      gpu.fault = {};
      return {};
    case Verb::set_load:
      return set_load(gpu, command);
    case Verb::attach:
      return attach(gpu, command.process);
    case Verb::set_synthetic:
      return set_synthetic(gpu, command.count, command.process);
    case Verb::add_ecc_errors:
      return add_ecc_errors(gpu, command);
    case Verb::raise_event:
      if (command.count > kMaxXid) return Error{Errc::invalid, "not an Xid"};
      log_event(command.gpu, kEventXid, command.count);
      return {};
    case Verb::reset:
      return reset_gpu(gpu);
    case Verb::set_heat:
      return set_heat(gpu, command.load);
    case Verb::stop:
    case Verb::set:
      break;
  }
  return Error{Errc::invalid, "unknown command"};
}

Result<void> WorldKeeper::attach(Gpu& gpu, const ProcessRecord& asked) {
  ProcessRecord process = asked;
  process.since_ns = boot_time_ns();
  // Attached again, a process asks anew.
  const auto same = [&](const ProcessRecord& other) {
    return other.pid == process.pid && other.start_time == process.start_time;
  };
  if (is_synthetic(process)) return Error{Errc::invalid, "not the pid of a process"};
  std::vector<ProcessRecord> after = gpu.processes.list();
  std::erase_if(after, same);
  after.push_back(process);
  if (auto watched = watch_.watch({process.pid, process.start_time}); !watched) return watched;
  return put_processes(gpu, std::move(after));
}

Result<void> WorldKeeper::set_synthetic(Gpu& gpu, std::uint64_t count, const ProcessRecord& each) {
  if (count > kMaxProcesses) {
    return Error{Errc::invalid, fmt::format("a world has room for {} processes", kMaxProcesses)};
  }
  std::vector<ProcessRecord> after = gpu.processes.list();
  std::erase_if(after, is_synthetic);
  ProcessRecord process = each;
  process.start_time = 0;
  process.since_ns = boot_time_ns();
  process.pid = kLastRealPid + gpu.identity.minor_number * kMaxProcesses;
  for (std::uint64_t i = 0; i < count; ++i) {
    ++process.pid;
    after.push_back(process);
  }
  return put_processes(gpu, std::move(after));
}

Result<void> WorldKeeper::put_processes(Gpu& gpu, std::vector<ProcessRecord> list) {
  std::size_t total = list.size();
  for (const Gpu& other : world_.gpus) {
    if (&other != &gpu) total += other.processes.list().size();
  }
  if (total > kMaxProcesses) {
    return Error{Errc::busy, fmt::format("a world has room for {} processes", kMaxProcesses)};
  }
  if (auto admitted = admits(gpu, list.size()); !admitted) return admitted;
  Processes after(std::move(list));
  if (after.most_asked() > kWhole) return Error{Errc::invalid, "a load is from 0 to 1"};
  if (!after.memory_bytes() || *after.memory_bytes() > usable_memory(*gpu.model)) {
    return Error{Errc::conflict, "out of memory: the processes would use more than this GPU has"};
  }
  gpu.processes = std::move(after);
  writer_.publish_processes(world_);
  return {};
}

Result<void> WorldKeeper::add_ecc_errors(Gpu& gpu, const Command& command) {
  const MemoryErrors errors{
      .location = command.location,
      .uncorrected = command.uncorrected != 0,
      .count = static_cast<std::uint32_t>(std::min<std::uint64_t>(command.count, UINT32_MAX))};
  if (auto added = add_memory_errors(gpu, errors); !added) return added;
  log_event(command.gpu, errors.uncorrected ? kEventDoubleBitEcc : kEventSingleBitEcc, 0);
  if (errors.uncorrected) log_event(command.gpu, kEventXid, kXidDoubleBitEcc);
  return {};
}

void WorldKeeper::log_event(std::uint32_t gpu, std::uint64_t type, std::uint64_t data) {
  writer_.log_event({.type = type, .data = data, .gpu = gpu});
}

void WorldKeeper::remove_dead() {
  const std::vector<ProcessKey> dead = watch_.take_dead();
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
