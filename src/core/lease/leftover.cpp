#include "core/lease/leftover.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace gpuyard::lease {
namespace {

bool can_reuse_gpu(const Lease& lease, const ProcessKey& process) {
  const bool holder = !lease.processes.empty() && lease.processes.front() == process;
  if (lease.spec.binding == Binding::run) return !holder;
  return lease.spec.binding == Binding::process && lease.end_reason == EndReason::exited;
}

bool is_member(const ObservedProcess& one, const Lease& lease) {
  return one.attribution == ObservedProcess::Attribution::member && one.lease == lease.id;
}

std::optional<Leftover> leftover_process(const Lease& lease, const DeviceId& gpu,
                                         const Observation& observation) {
  const auto list = observation.processes_by_gpu.find(gpu);
  if (list == observation.processes_by_gpu.end() || !list->second) {
    return Leftover{"the processes on " + gpu + " cannot be read now"};
  }
  const auto member = std::ranges::find_if(
      *list->second, [&](const ObservedProcess& one) { return is_member(one, lease); });
  if (member == list->second->end()) return std::nullopt;
  return Leftover{fmt::format("PID {} ({}) still uses {}", member->pid, member->command, gpu),
                  true};
}

// Other processes may have memory there; only memory of no process is a leftover.
std::optional<Leftover> leftover_memory(const DeviceId& gpu, const Observation& observation,
                                        std::optional<std::int64_t> idle_bytes) {
  const auto used = observation.used_bytes.find(gpu);
  if (!observation.processes_by_gpu.at(gpu)->empty() || used == observation.used_bytes.end() ||
      !used->second || !idle_bytes || *used->second <= *idle_bytes + kSlackBytes) {
    return std::nullopt;
  }
  return Leftover{fmt::format("no process is left, but {:.1f} GiB of memory on {} is still in use",
                              to_gib(*used->second), gpu),
                  true};
}

}  // namespace

std::vector<ProcessKey> remaining_processes(const Lease& lease, const Observation& observation) {
  std::set<ProcessKey> all;
  if (const auto alive = observation.alive_by_lease.find(lease.id);
      alive != observation.alive_by_lease.end()) {
    std::ranges::copy_if(alive->second, std::inserter(all, all.end()),
                         [&](const ProcessKey& one) { return can_reuse_gpu(lease, one); });
  }
  for (const DeviceId& gpu : lease.gpus) {
    const auto list = observation.processes_by_gpu.find(gpu);
    if (list == observation.processes_by_gpu.end() || !list->second) continue;
    for (const ObservedProcess& one : *list->second) {
      if (is_member(one, lease) && one.started) all.insert({one.pid, *one.started});
    }
  }
  return {all.begin(), all.end()};
}

std::optional<Leftover> find_leftover(const Lease& lease, const Observation& observation,
                                      const GpuPool& gpus) {
  if (observation.alive_by_lease.count(lease.id) == 0)
    return Leftover{"its processes could not be checked"};
  std::optional<Leftover> leftover;
  for (const DeviceId& gpu : lease.gpus) {
    if (gpus.is_lost(gpu)) continue;
    auto found = leftover_process(lease, gpu, observation);
    if (!found) found = leftover_memory(gpu, observation, gpus.idle_bytes(gpu));
    if (found && (!leftover || (found->is_observed && !leftover->is_observed)))
      leftover = std::move(found);
  }
  if (leftover && leftover->is_observed) return leftover;
  if (const auto all = remaining_processes(lease, observation); !all.empty()) {
    return Leftover{all.size() == 1 ? fmt::format("PID {} is still running", all.front().pid)
                                    : fmt::format("PID {} and {} more are still running",
                                                  all.front().pid, all.size() - 1),
                    true};
  }
  return leftover;
}

}  // namespace gpuyard::lease
