// A keeper and the processes on its GPUs.
#include <algorithm>

#include <fmt/format.h>

#include "sim/world_keeper.h"

namespace gpuyard::sim {
namespace {

constexpr std::uint32_t kWhole = 1000;  // permille

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

}  // namespace

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
