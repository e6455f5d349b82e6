#include "core/lease/unleased_processes.h"

#include <algorithm>
#include <utility>

namespace gpuyard::lease {

void UnleasedProcesses::clear() {
  processes_.clear();
  uses_.clear();
  listed_.clear();
}

void UnleasedProcesses::remove_absent(const std::set<DeviceId>& present) {
  std::erase_if(processes_, [&](const auto& one) { return !present.contains(one.first); });
}

std::vector<ObservedProcess> UnleasedProcesses::update(const DeviceId& gpu,
                                                       std::vector<ObservedProcess> unleased,
                                                       bool is_leased, bool observes,
                                                       TimePoint now) {
  // A job that began without a daemon is known once its allocator reports it, so the time before
  // does not count against its processes.
  const bool first = listed_.insert(gpu).second && !observes;
  auto& known = uses_[gpu];
  for (const ObservedProcess& one : unleased) {
    if (!one.started) continue;
    const Use new_use{first ? *one.started : now, now};
    Use& use = known.try_emplace({one.pid, *one.started}, new_use).first->second;
    if (is_leased && !observes) use.since = now;
    use.last_seen_at = now;
  }
  std::erase_if(known,
                [&](const auto& one) { return now - one.second.last_seen_at > kMissingGrace; });
  if (observes) {
    std::erase_if(unleased, [&](const ObservedProcess& one) {
      return now - known.at({one.pid, *one.started}).since < kReportDelay;
    });
  }
  const auto before = std::exchange(processes_[gpu], std::move(unleased));
  std::vector<ObservedProcess> newcomers;
  for (const ObservedProcess& one : processes_[gpu]) {
    const bool same = std::ranges::any_of(before, [&](const ObservedProcess& other) {
      return other.pid == one.pid && other.started == one.started;
    });
    if (one.attribution == ObservedProcess::Attribution::outsider && !same)
      newcomers.push_back(one);
  }
  if (processes_[gpu].empty()) processes_.erase(gpu);
  return newcomers;
}

std::optional<TimePoint> UnleasedProcesses::since(const DeviceId& gpu,
                                                  const ProcessKey& process) const {
  const auto all = uses_.find(gpu);
  if (all == uses_.end()) return std::nullopt;
  const auto use = all->second.find(process);
  return use == all->second.end() ? std::nullopt : std::optional(use->second.since);
}

}  // namespace gpuyard::lease
