#include "core/lease/holder_monitor.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::lease {

void Holders::identify(std::uint32_t pid, const Found& found) {
  if (const auto known = known_.find(pid); known != known_.end()) {
    return found(known->second.identity);
  }
  observer_.identify(
      pid, here_.guard([found](Result<Identity> identity) { found(std::move(identity)); }));
}

void Holders::bind(const std::string& lease, const Identity& identity) {
  if (identity.fd) keep(identity).leases.insert(lease);
}

void Holders::release(const std::string& lease, const std::vector<Process>& of) {
  for (const Process& process : of) {
    const auto found = known_.find(process.pid);
    if (found != known_.end()) found->second.leases.erase(lease);
  }
}

void Holders::clear() {
  for (auto& [pid, known] : known_) known.leases.clear();
}

Holders::Known& Holders::keep(const Identity& identity) {
  const std::uint32_t pid = identity.process.pid;
  const auto there = known_.find(pid);
  if (there != known_.end() && there->second.identity.process == identity.process) {
    return there->second;
  }
  if (there != known_.end()) on_gone(pid);
  make_room();
  Known& known = known_.insert_or_assign(pid, Known{identity}).first->second;
  known.gone = loop_.watch(identity.fd->get(), [this, pid] { on_gone(pid); });
  return known;
}

void Holders::on_gone(std::uint32_t pid) {
  const auto found = known_.find(pid);
  if (found == known_.end()) return;
  const Known known = std::move(found->second);
  known_.erase(found);
  for (const std::string& lease : known.leases) gone_(lease, known.identity.process);
}

void Holders::make_room() {
  if (known_.size() < most_known_) return;
  std::erase_if(known_, [](const auto& one) { return one.second.leases.empty(); });
}

namespace {

bool may_begin_again(const Lease& lease, const Process& process) {
  const bool holder = !lease.processes.empty() && lease.processes.front() == process;
  if (lease.wish.binding == Binding::run) return !holder;
  return lease.wish.binding == Binding::process && lease.ending == Ending::exited;
}

bool is_member(const Seen& one, const Lease& lease) {
  return one.verdict == Seen::Verdict::member && one.lease == lease.id;
}

std::optional<Left> member_on(const Lease& lease, const DeviceId& gpu, const Sight& sight) {
  const auto list = sight.on_gpus.find(gpu);
  if (list == sight.on_gpus.end() || !list->second) {
    return Left{"the processes on " + gpu + " cannot be read now"};
  }
  const auto member =
      std::ranges::find_if(*list->second, [&](const Seen& one) { return is_member(one, lease); });
  if (member == list->second->end()) return std::nullopt;
  return Left{fmt::format("PID {} ({}) still uses {}", member->pid, member->command, gpu), true};
}

// Other processes may have memory there; only memory of no process is left over.
std::optional<Left> memory_on(const DeviceId& gpu, const Sight& sight,
                              std::optional<std::int64_t> idle_bytes) {
  const auto used = sight.used_bytes.find(gpu);
  if (!sight.on_gpus.at(gpu)->empty() || used == sight.used_bytes.end() || !used->second ||
      !idle_bytes || *used->second <= *idle_bytes + kSlackBytes) {
    return std::nullopt;
  }
  return Left{fmt::format("no process is left, but {:.1f} GiB of memory on {} is still in use",
                          in_gib(*used->second), gpu),
              true};
}

}  // namespace

std::vector<Process> remaining_processes(const Lease& lease, const Sight& sight) {
  std::set<Process> all;
  if (const auto alive = sight.alive.find(lease.id); alive != sight.alive.end()) {
    std::ranges::copy_if(alive->second, std::inserter(all, all.end()),
                         [&](const Process& one) { return may_begin_again(lease, one); });
  }
  for (const DeviceId& gpu : lease.gpus) {
    const auto list = sight.on_gpus.find(gpu);
    if (list == sight.on_gpus.end() || !list->second) continue;
    for (const Seen& one : *list->second) {
      if (is_member(one, lease) && one.started) all.insert({one.pid, *one.started});
    }
  }
  return {all.begin(), all.end()};
}

std::optional<Left> left_of(const Lease& lease, const Sight& sight, const GpuPool& gpus) {
  if (sight.alive.count(lease.id) == 0) return Left{"its processes could not be checked"};
  std::optional<Left> left;
  for (const DeviceId& gpu : lease.gpus) {
    if (gpus.lost(gpu)) continue;
    auto found = member_on(lease, gpu, sight);
    if (!found) found = memory_on(gpu, sight, gpus.idle_bytes(gpu));
    if (found && (!left || (found->seen && !left->seen))) left = std::move(found);
  }
  if (left && left->seen) return left;
  if (const auto all = remaining_processes(lease, sight); !all.empty()) {
    return Left{all.size() == 1 ? fmt::format("PID {} is still running", all.front().pid)
                                : fmt::format("PID {} and {} more are still running",
                                              all.front().pid, all.size() - 1),
                true};
  }
  return left;
}

}  // namespace gpuyard::lease
