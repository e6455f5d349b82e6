#include "daemon/lease_sight.h"

#include <algorithm>
#include <utility>

#include "daemon/lease_gpus.h"

namespace gpuyard::daemon {
namespace {

using lease::Seen;
using processes::Membership;

// Only who computes needs a lease: a display server draws on whatever GPU there is.
std::optional<std::vector<GpuProcess>> computing_on(const DeviceState& device) {
  const auto& list = device.sample.processes();
  const auto* processes = list ? list->processes() : nullptr;
  if (device.condition != DeviceCondition::responsive || processes == nullptr) return std::nullopt;
  std::vector<GpuProcess> computing;
  std::ranges::copy_if(*processes, std::back_inserter(computing), [](const GpuProcess& process) {
    return process.kind != ProcessKind::graphics;
  });
  return computing;
}

class Judge {
 public:
  Judge(const std::vector<lease::Suspect>& suspects, const std::vector<processes::Lessee>& lessees,
        const processes::Evidence& evidence)
      : suspects_(suspects), evidence_(evidence), membership_(lessees, evidence) {}

  Seen seen(const GpuProcess& process, const DeviceId& gpu) const {
    Seen seen{.pid = process.pid, .memory_bytes = process.memory_bytes};
    const auto user = evidence_.gpu_users.find(process.pid);
    if (user == evidence_.gpu_users.end() || !user->second) return seen;
    seen.started = user->second->process.started;
    seen.uid = user->second->traces.uid;
    seen.command = user->second->command;
    judge(user->second, gpu, seen);
    return seen;
  }

  std::vector<lease::Process> alive(std::size_t suspect) const {
    std::vector<lease::Process> alive;
    for (const auto& [pid, started] : membership_.alive(suspect)) alive.push_back({pid, started});
    return alive;
  }

 private:
  void judge(const Result<processes::GpuUser>& user, const DeviceId& gpu, Seen& seen) const {
    seen.verdict = Seen::Verdict::outsider;
    for (std::size_t i = 0; i < suspects_.size(); ++i) {
      if (std::ranges::find(suspects_[i].gpus, gpu) == suspects_[i].gpus.end()) continue;
      const auto has = membership_.has(i, user);
      if (!has) seen.verdict = Seen::Verdict::unknown;
      if (!has || !*has) continue;
      seen.verdict = Seen::Verdict::member;
      seen.lease = suspects_[i].lease;
      return;
    }
  }

  const std::vector<lease::Suspect>& suspects_;
  const processes::Evidence& evidence_;
  const Membership membership_;
};

}  // namespace

GpuLists lists_in(const Snapshot& snapshot, const std::vector<DeviceId>& gpus, TimePoint asked) {
  GpuLists lists{.taken = asked};
  for (const DeviceId& gpu : gpus) {
    auto& computing = lists.computing[gpu];
    auto& used = lists.used_bytes[gpu];
    const auto device = std::ranges::find_if(
        snapshot.devices, [&](const DeviceState& one) { return one.info.id == gpu; });
    // Without a driver the newest lists are of when there was one.
    if (device == snapshot.devices.end() || !snapshot.driver.initialised) continue;
    const bool answers = device->condition == DeviceCondition::responsive;
    const std::int64_t* const bytes = device->sample.number(Metric::memory_used);
    if (answers && bytes != nullptr) {
      used = std::max<std::int64_t>(*bytes - drawing_bytes(*device), 0);
    }
    computing = computing_on(*device);
    if (!computing) continue;
    const TimePoint taken = device->sample.processes()->taken;
    lists.taken = std::min(lists.taken, taken);
    for (const GpuProcess& process : *computing) {
      TimePoint& newest = lists.listed.try_emplace(process.pid, taken).first->second;
      newest = std::max(newest, taken);
    }
  }
  return lists;
}

std::vector<processes::Lessee> lessees_of(const std::vector<lease::Suspect>& suspects) {
  std::vector<processes::Lessee> lessees;
  for (const lease::Suspect& suspect : suspects) {
    processes::Lessee& lessee = lessees.emplace_back();
    lessee.lease = suspect.lease;
    lessee.uid = suspect.uid;
    lessee.whole_user = suspect.whole_user;
    for (const auto& [pid, started] : suspect.processes) lessee.known.push_back({pid, started});
  }
  return lessees;
}

lease::Sight sight_of(const GpuLists& lists, const std::vector<lease::Suspect>& suspects,
                      const std::vector<processes::Lessee>& lessees,
                      const processes::Evidence& evidence) {
  const Judge judge(suspects, lessees, evidence);
  lease::Sight sight{.taken = lists.taken, .used_bytes = lists.used_bytes};
  for (const auto& [gpu, computing] : lists.computing) {
    auto& seen = sight.on_gpus[gpu];
    if (!computing) continue;
    seen.emplace();
    for (const GpuProcess& process : *computing) seen->push_back(judge.seen(process, gpu));
  }
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    sight.alive[suspects[i].lease] = judge.alive(i);
  }
  return sight;
}

lease::Sight blind_sight(const std::vector<lease::Suspect>& suspects,
                         const std::vector<DeviceId>& gpus, TimePoint asked) {
  lease::Sight sight{.taken = asked};
  for (const DeviceId& gpu : gpus) {
    sight.on_gpus[gpu] = std::nullopt;
    sight.used_bytes[gpu] = std::nullopt;
  }
  for (const lease::Suspect& suspect : suspects) sight.alive[suspect.lease] = suspect.processes;
  return sight;
}

}  // namespace gpuyard::daemon
