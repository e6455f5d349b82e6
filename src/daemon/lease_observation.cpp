#include "daemon/lease_observation.h"

#include <algorithm>
#include <utility>

#include "daemon/pool_gpus.h"

namespace gpuyard::daemon {
namespace {

using lease::ObservedProcess;
using processes::Membership;

// Only computing needs a lease: a display server draws on whatever GPU there is.
std::optional<std::vector<GpuProcess>> compute_processes_on(const DeviceState& device) {
  const auto* const processes = device.sample.listed_processes();
  if (device.condition != DeviceCondition::responsive || processes == nullptr) return std::nullopt;
  std::vector<GpuProcess> computing;
  std::ranges::copy_if(*processes, std::back_inserter(computing), [](const GpuProcess& process) {
    return process.kind != ProcessKind::graphics;
  });
  return computing;
}

class ProcessAttributor {
 public:
  ProcessAttributor(const std::vector<lease::ObservedLease>& leases,
                    const std::vector<processes::LeaseProcesses>& lease_processes,
                    const processes::Evidence& evidence)
      : suspects_(leases), evidence_(evidence), membership_(lease_processes, evidence) {}

  ObservedProcess observed(const GpuProcess& process, const DeviceId& gpu) const {
    ObservedProcess observed_process{.pid = process.pid, .memory_bytes = process.memory_bytes};
    const auto user = evidence_.gpu_users.find(process.pid);
    if (user == evidence_.gpu_users.end() || !user->second) return observed_process;
    observed_process.started = user->second->process.started;
    observed_process.uid = user->second->traits.uid;
    observed_process.command = user->second->command;
    observed_process.in_job = user->second->in_job;
    observed_process.in_container = user->second->traits.container.has_value();
    attribute(user->second, gpu, observed_process);
    return observed_process;
  }

  std::vector<lease::ProcessKey> alive(std::size_t index) const {
    return process_keys_of(membership_.live_processes(index));
  }
  std::vector<lease::ProcessKey> alive_by_container(std::size_t index) const {
    return process_keys_of(membership_.live_by_container(index));
  }

 private:
  static std::vector<lease::ProcessKey> process_keys_of(
      const std::vector<processes::ProcessKey>& processes) {
    std::vector<lease::ProcessKey> all;
    for (const auto& [pid, started] : processes) all.push_back({pid, started});
    return all;
  }
  void attribute(const Result<processes::GpuUser>& user, const DeviceId& gpu,
                 ObservedProcess& observed_process) const {
    observed_process.attribution = ObservedProcess::Attribution::outsider;
    for (std::size_t i = 0; i < suspects_.size(); ++i) {
      if (std::ranges::find(suspects_[i].gpus, gpu) == suspects_[i].gpus.end()) continue;
      const auto has = membership_.contains(i, user);
      if (!has) observed_process.attribution = ObservedProcess::Attribution::unknown;
      if (!has || !*has) continue;
      observed_process.attribution = ObservedProcess::Attribution::member;
      observed_process.lease = suspects_[i].lease;
      return;
    }
  }

  const std::vector<lease::ObservedLease>& suspects_;
  const processes::Evidence& evidence_;
  const Membership membership_;
};

}  // namespace

GpuLists gpu_lists_of(const Snapshot& snapshot, const std::vector<DeviceId>& gpus,
                      TimePoint requested_at) {
  GpuLists lists{.taken_at = requested_at};
  for (const DeviceId& gpu : gpus) {
    auto& computing = lists.computing[gpu];
    auto& used = lists.used_bytes[gpu];
    const auto device = std::ranges::find_if(
        snapshot.devices, [&](const DeviceState& one) { return one.info.id == gpu; });
    // While no driver is loaded, the newest lists are outdated.
    if (device == snapshot.devices.end() || !snapshot.driver.initialised) continue;
    const bool responsive = device->condition == DeviceCondition::responsive;
    const std::int64_t* const bytes = device->sample.number(Metric::memory_used);
    if (responsive && bytes != nullptr) {
      used = std::max<std::int64_t>(*bytes - drawing_bytes(*device), 0);
    }
    computing = compute_processes_on(*device);
    if (!computing) continue;
    // A process that had begun to compute on a suspended GPU would have resumed it.
    const TimePoint taken =
        asleep_since(*device) ? requested_at : device->sample.processes()->taken;
    lists.taken_at = std::min(lists.taken_at, taken);
    for (const GpuProcess& process : *computing) {
      TimePoint& newest = lists.listed.try_emplace(process.pid, taken).first->second;
      newest = std::max(newest, taken);
    }
  }
  return lists;
}

std::vector<processes::LeaseProcesses> lease_processes_of(
    const std::vector<lease::ObservedLease>& leases) {
  std::vector<processes::LeaseProcesses> lease_processes;
  for (const lease::ObservedLease& observed : leases) {
    processes::LeaseProcesses& entry = lease_processes.emplace_back();
    entry.lease = observed.lease;
    entry.uid = observed.uid;
    entry.whole_user = observed.whole_user;
    entry.whole_gpu = observed.whole_gpu;
    for (const auto& [pid, started] : observed.processes) entry.known.push_back({pid, started});
  }
  return lease_processes;
}

lease::Observation make_observation(const GpuLists& lists,
                                    const std::vector<lease::ObservedLease>& leases,
                                    const std::vector<processes::LeaseProcesses>& lease_processes,
                                    const processes::Evidence& evidence) {
  const ProcessAttributor attributor(leases, lease_processes, evidence);
  lease::Observation observation{.taken_at = lists.taken_at, .used_bytes = lists.used_bytes};
  for (const auto& [gpu, computing] : lists.computing) {
    auto& observed = observation.processes_by_gpu[gpu];
    if (!computing) continue;
    observed.emplace();
    for (const GpuProcess& process : *computing)
      observed->push_back(attributor.observed(process, gpu));
  }
  for (std::size_t i = 0; i < leases.size(); ++i) {
    observation.alive_by_lease[leases[i].lease] = attributor.alive(i);
    observation.by_container[leases[i].lease] = attributor.alive_by_container(i);
  }
  return observation;
}

lease::Observation failed_observation(const std::vector<lease::ObservedLease>& leases,
                                      const std::vector<DeviceId>& gpus, TimePoint requested_at) {
  lease::Observation observation{.taken_at = requested_at};
  for (const DeviceId& gpu : gpus) {
    observation.processes_by_gpu[gpu] = std::nullopt;
    observation.used_bytes[gpu] = std::nullopt;
  }
  for (const lease::ObservedLease& observed : leases)
    observation.alive_by_lease[observed.lease] = observed.processes;
  return observation;
}

}  // namespace gpuyard::daemon
