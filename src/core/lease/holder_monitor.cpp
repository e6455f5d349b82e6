#include "core/lease/holder_monitor.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::lease {

void HolderMonitor::identify(std::uint32_t pid, const OnIdentified& found) {
  if (const auto known = known_processes_.find(pid); known != known_processes_.end()) {
    return found(known->second.identity);
  }
  observer_.identify(pid, lifetime_.guard([found](Result<ProcessIdentity> identity) {
    found(std::move(identity));
  }));
}

void HolderMonitor::bind(const std::string& lease, const ProcessIdentity& identity) {
  if (identity.fd) track(identity).leases.insert(lease);
}

void HolderMonitor::release(const std::string& lease, const std::vector<ProcessKey>& of) {
  for (const ProcessKey& process : of) {
    const auto found = known_processes_.find(process.pid);
    if (found != known_processes_.end()) found->second.leases.erase(lease);
  }
}

void HolderMonitor::clear() {
  for (auto& [pid, known] : known_processes_) known.leases.clear();
}

HolderMonitor::KnownProcess& HolderMonitor::track(const ProcessIdentity& identity) {
  const std::uint32_t pid = identity.key.pid;
  const auto there = known_processes_.find(pid);
  if (there != known_processes_.end() && there->second.identity.key == identity.key) {
    return there->second;
  }
  if (there != known_processes_.end()) on_gone(pid);
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
                                         const Observation& sight) {
  const auto list = sight.processes_by_gpu.find(gpu);
  if (list == sight.processes_by_gpu.end() || !list->second) {
    return Leftover{"the processes on " + gpu + " cannot be read now"};
  }
  const auto member = std::ranges::find_if(
      *list->second, [&](const ObservedProcess& one) { return is_member(one, lease); });
  if (member == list->second->end()) return std::nullopt;
  return Leftover{fmt::format("PID {} ({}) still uses {}", member->pid, member->command, gpu),
                  true};
}

// Other processes may have memory there; only memory of no process is left over.
std::optional<Leftover> leftover_memory(const DeviceId& gpu, const Observation& sight,
                                        std::optional<std::int64_t> idle_bytes) {
  const auto used = sight.used_bytes.find(gpu);
  if (!sight.processes_by_gpu.at(gpu)->empty() || used == sight.used_bytes.end() || !used->second ||
      !idle_bytes || *used->second <= *idle_bytes + kSlackBytes) {
    return std::nullopt;
  }
  return Leftover{fmt::format("no process is left, but {:.1f} GiB of memory on {} is still in use",
                              to_gib(*used->second), gpu),
                  true};
}

}  // namespace

std::vector<ProcessKey> remaining_processes(const Lease& lease, const Observation& sight) {
  std::set<ProcessKey> all;
  if (const auto alive = sight.alive_by_lease.find(lease.id); alive != sight.alive_by_lease.end()) {
    std::ranges::copy_if(alive->second, std::inserter(all, all.end()),
                         [&](const ProcessKey& one) { return can_reuse_gpu(lease, one); });
  }
  for (const DeviceId& gpu : lease.gpus) {
    const auto list = sight.processes_by_gpu.find(gpu);
    if (list == sight.processes_by_gpu.end() || !list->second) continue;
    for (const ObservedProcess& one : *list->second) {
      if (is_member(one, lease) && one.started) all.insert({one.pid, *one.started});
    }
  }
  return {all.begin(), all.end()};
}

std::optional<Leftover> find_leftover(const Lease& lease, const Observation& sight,
                                      const GpuPool& gpus) {
  if (sight.alive_by_lease.count(lease.id) == 0)
    return Leftover{"its processes could not be checked"};
  std::optional<Leftover> left;
  for (const DeviceId& gpu : lease.gpus) {
    if (gpus.is_lost(gpu)) continue;
    auto found = leftover_process(lease, gpu, sight);
    if (!found) found = leftover_memory(gpu, sight, gpus.idle_bytes(gpu));
    if (found && (!left || (found->is_observed && !left->is_observed))) left = std::move(found);
  }
  if (left && left->is_observed) return left;
  if (const auto all = remaining_processes(lease, sight); !all.empty()) {
    return Leftover{all.size() == 1 ? fmt::format("PID {} is still running", all.front().pid)
                                    : fmt::format("PID {} and {} more are still running",
                                                  all.front().pid, all.size() - 1),
                    true};
  }
  return left;
}

}  // namespace gpuyard::lease
