#include "core/lease/holder_monitor.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::lease {

void HolderMonitor::identify(std::uint32_t pid, const OnIdentified& on_identified) {
  if (const auto known = known_processes_.find(pid); known != known_processes_.end()) {
    return on_identified(known->second.identity);
  }
  observer_.identify(pid, lifetime_.guard([on_identified](Result<ProcessIdentity> identity) {
    on_identified(std::move(identity));
  }));
}

void HolderMonitor::bind(const std::string& lease, const ProcessIdentity& identity) {
  if (identity.fd) track(identity).leases.insert(lease);
}

void HolderMonitor::release(const std::string& lease, const std::vector<ProcessKey>& processes) {
  for (const ProcessKey& process : processes) {
    const auto found = known_processes_.find(process.pid);
    if (found != known_processes_.end()) found->second.leases.erase(lease);
  }
}

void HolderMonitor::clear() {
  for (auto& [pid, known] : known_processes_) known.leases.clear();
}

HolderMonitor::KnownProcess& HolderMonitor::track(const ProcessIdentity& identity) {
  const std::uint32_t pid = identity.key.pid;
  const auto found = known_processes_.find(pid);
  if (found != known_processes_.end() && found->second.identity.key == identity.key) {
    return found->second;
  }
  if (found != known_processes_.end()) on_gone(pid);
  evict_unbound();
  KnownProcess& known =
      known_processes_.insert_or_assign(pid, KnownProcess{identity}).first->second;
  known.exit_subscription = loop_.watch(identity.fd->get(), [this, pid] { on_gone(pid); });
  return known;
}

void HolderMonitor::on_gone(std::uint32_t pid) {
  const auto found = known_processes_.find(pid);
  if (found == known_processes_.end()) return;
  const KnownProcess known = std::move(found->second);
  known_processes_.erase(found);
  for (const std::string& lease : known.leases) on_gone_(lease, known.identity.key);
}

void HolderMonitor::evict_unbound() {
  if (known_processes_.size() < max_known_) return;
  std::erase_if(known_processes_, [](const auto& one) { return one.second.leases.empty(); });
}

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
