#include "daemon/lease_observer.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "core/processes/identify.h"
#include "core/processes/mark_client.h"
#include "daemon/lease_adapter.h"

namespace gpuyard::daemon {
namespace {

Result<lease::ProcessIdentity> identity_of(std::uint32_t pid,
                                           const std::shared_ptr<processes::MarkClient>& marks) {
  processes::HiddenProcessViewer view_hidden;
  if (marks) {
    view_hidden = [&](std::uint32_t one) { return marks->view(processes::PidSpace::ours, one); };
  }
  auto who = processes::identify_process(pid, view_hidden);
  if (!who) return who.error();
  return lease::ProcessIdentity{{who->process.pid, who->process.started},
                                who->uid,
                                who->parent,
                                std::move(who->command),
                                std::make_shared<const UniqueFd>(std::move(who->handle))};
}

// Sends the signal. Returns the processes that did not get it; a process that is gone is none.
std::vector<lease::SignalFailure> send_signals(
    const std::vector<lease::ProcessKey>& to, int number,
    const std::function<bool(std::uint32_t uid)>& may_be_of) {
  std::vector<lease::SignalFailure> left;
  for (const lease::ProcessKey& one : to) {
    const auto sent = processes::send_signal({one.pid, one.started}, number, may_be_of);
    if (!sent && sent.error().code != Errc::not_found) left.push_back({one, sent.error()});
  }
  return left;
}

// A daemon without CAP_KILL leaves signals to its clients, so this is no warning.
void log_unsignalled(const std::vector<lease::SignalFailure>& left) {
  if (left.empty()) return;
  log::info("{} of a lease's processes were not signalled by the daemon; the first: {}",
            left.size(), left.front().error.text());
}

Error timeout_error() {
  return {Errc::unavailable, "the process could not be identified in time; try again"};
}

}  // namespace

struct LeaseObserver::PendingObservation {
  std::vector<lease::ObservedLease> suspects;
  std::vector<DeviceId> gpus;
  TimePoint asked_at;
  std::function<void(lease::Observation)> on_observed;
  Subscription deadline = {};
};

struct LeaseObserver::PendingLookup {
  std::function<void(Result<lease::ProcessIdentity>)> on_found;
  Subscription deadline = {};
};

struct LeaseObserver::PendingSignal {
  std::function<void(std::vector<lease::SignalFailure>)> on_done;
  Subscription deadline = {};
};

LeaseObserver::LeaseObserver(Loop& loop, Worker& worker, telemetry::Telemetry& telemetry,
                             ProcRoots places)
    : loop_(loop),
      worker_(worker),
      telemetry_(telemetry),
      proc_roots_(std::move(places)),
      reader_(std::make_shared<processes::EvidenceReader>(
          proc_roots_.proc_root, proc_roots_.own_proc_root, proc_roots_.quota_owner,
          processes::GroupMakers::of_this_machine(), proc_roots_.marks)) {}

LeaseObserver::~LeaseObserver() = default;

bool LeaseObserver::is_worker_stuck() const {
  return std::ranges::any_of(
      submitted_at_, [&](const auto& one) { return loop_.now() - one.second >= kReplyTimeout; });
}

template <class Ask, class Hear>
bool LeaseObserver::submit(Ask question, Hear heard) {
  if (submitted_at_.size() >= kMaxPendingRequests || is_worker_stuck()) return false;
  const std::uint64_t id = next_id_++;
  const bool posted = run_on_worker(worker_, std::move(question),
                                    [this, id, heard = std::move(heard)](auto&& answer) {
                                      submitted_at_.erase(id);
                                      heard(std::forward<decltype(answer)>(answer));
                                    });
  if (posted) submitted_at_.emplace(id, loop_.now());
  return posted;
}

void LeaseObserver::identify(std::uint32_t pid,
                             std::function<void(Result<lease::ProcessIdentity>)> found) {
  const std::uint64_t id = next_id_++;
  const auto finish = [this, id](Result<lease::ProcessIdentity> who) {
    auto question = lookups_.extract(id);
    if (!question.empty()) question.mapped().on_found(std::move(who));
  };
  const bool asked =
      submit([pid, marks = proc_roots_.marks] { return identity_of(pid, marks); }, finish);
  lookups_.emplace(
      id, PendingLookup{std::move(found), loop_.call_after(asked ? kReplyTimeout : Duration::zero(),
                                                           [finish] { finish(timeout_error()); })});
}

processes::PidOrigin LeaseObserver::pid_origin_of(const Snapshot& snapshot) const {
  using enum processes::PidOrigin;
  if (proc_roots_.recorded) return recording;
  return snapshot.driver.info.simulated ? simulation : driver;
}

void LeaseObserver::observe(std::vector<lease::ObservedLease> suspects, std::vector<DeviceId> gpus,
                            bool fresh, std::function<void(lease::Observation)> seen) {
  const std::uint64_t id = next_id_++;
  PendingObservation& look =
      observations_
          .emplace(id, PendingObservation{std::move(suspects), std::move(gpus), loop_.now(),
                                          std::move(seen)})
          .first->second;
  look.deadline = loop_.call_after(kReplyTimeout, [this, id] { fail_observation(id); });
  if (!fresh || look.gpus.empty()) return on_lists(id, telemetry_.latest());
  telemetry_.read_fresh({Probe::processes, Probe::memory},
                        [this, id](const telemetry::SnapshotPtr& lists) { on_lists(id, lists); });
}

void LeaseObserver::on_lists(std::uint64_t id, const telemetry::SnapshotPtr& snapshot) {
  const auto found = observations_.find(id);
  if (found == observations_.end()) return;
  PendingObservation& look = found->second;
  const bool asked = submit(
      [reader = reader_, suspects = look.suspects,
       lists = gpu_lists_of(*snapshot, look.gpus, look.asked_at),
       numbers = pid_origin_of(*snapshot)] {
        const auto lessees = lease_processes_of(suspects);
        const auto evidence = reader->read(lessees, lists.listed, numbers, BootClock::now());
        return make_observation(lists, suspects, lessees, evidence);
      },
      [this, id](lease::Observation sight) { finish_observation(id, std::move(sight)); });
  if (!asked) {
    look.deadline = loop_.call_after(Duration::zero(), [this, id] { fail_observation(id); });
  }
}

void LeaseObserver::fail_observation(std::uint64_t id) {
  const auto look = observations_.find(id);
  if (look == observations_.end()) return;
  finish_observation(
      id, failed_observation(look->second.suspects, look->second.gpus, look->second.asked_at));
}

void LeaseObserver::finish_observation(std::uint64_t id, lease::Observation sight) {
  const auto look = observations_.extract(id);
  if (!look.empty()) look.mapped().on_observed(std::move(sight));
}

// A signal cannot wait for a worker that one of the lease's processes may hold up.
void LeaseObserver::signal(std::vector<lease::ProcessKey> to, int number,
                           std::optional<std::uint32_t> only_of,
                           std::function<void(std::vector<lease::SignalFailure>)> done) {
  std::function<bool(std::uint32_t uid)> may_be_of;
  if (only_of) {
    may_be_of = [whose = *only_of, person = proc_roots_.quota_owner](std::uint32_t uid) {
      return uid == whose || (person && person(uid) == person(whose));
    };
  }
  const std::uint64_t id = next_id_++;
  const auto finish = [this, id](std::vector<lease::SignalFailure> left) {
    const auto sending = signals_.extract(id);
    if (sending.empty()) return;
    log_unsignalled(left);
    sending.mapped().on_done(std::move(left));
  };
  const auto now = [to, number, may_be_of] { return send_signals(to, number, may_be_of); };
  const bool asked = submit(now, finish);
  std::vector<lease::SignalFailure> left;
  if (!asked) {
    left = now();
  } else {
    for (const lease::ProcessKey& one : to) left.push_back({one, timeout_error()});
  }
  signals_.emplace(
      id, PendingSignal{std::move(done), loop_.call_after(asked ? kReplyTimeout : Duration::zero(),
                                                          [finish, left] { finish(left); })});
}

namespace {

using lease::ObservedProcess;
using processes::Membership;

// Only computing needs a lease: a display server draws on whatever GPU there is.
std::optional<std::vector<GpuProcess>> compute_processes_on(const DeviceState& device) {
  const auto& list = device.sample.processes();
  const auto* processes = list ? list->processes() : nullptr;
  if (device.condition != DeviceCondition::responsive || processes == nullptr) return std::nullopt;
  std::vector<GpuProcess> computing;
  std::ranges::copy_if(*processes, std::back_inserter(computing), [](const GpuProcess& process) {
    return process.kind != ProcessKind::graphics;
  });
  return computing;
}

class ProcessAttributor {
 public:
  ProcessAttributor(const std::vector<lease::ObservedLease>& suspects,
                    const std::vector<processes::LeaseProcesses>& lessees,
                    const processes::Evidence& evidence)
      : suspects_(suspects), evidence_(evidence), membership_(lessees, evidence) {}

  ObservedProcess observed(const GpuProcess& process, const DeviceId& gpu) const {
    ObservedProcess seen{.pid = process.pid, .memory_bytes = process.memory_bytes};
    const auto user = evidence_.gpu_users.find(process.pid);
    if (user == evidence_.gpu_users.end() || !user->second) return seen;
    seen.started = user->second->process.started;
    seen.uid = user->second->traits.uid;
    seen.command = user->second->command;
    attribute(user->second, gpu, seen);
    return seen;
  }

  std::vector<lease::ProcessKey> alive(std::size_t suspect) const {
    return process_keys_of(membership_.live_processes(suspect));
  }
  std::vector<lease::ProcessKey> alive_by_container(std::size_t suspect) const {
    return process_keys_of(membership_.live_by_container(suspect));
  }

 private:
  static std::vector<lease::ProcessKey> process_keys_of(
      const std::vector<processes::ProcessKey>& processes) {
    std::vector<lease::ProcessKey> all;
    for (const auto& [pid, started] : processes) all.push_back({pid, started});
    return all;
  }
  void attribute(const Result<processes::GpuUser>& user, const DeviceId& gpu,
                 ObservedProcess& seen) const {
    seen.attribution = ObservedProcess::Attribution::outsider;
    for (std::size_t i = 0; i < suspects_.size(); ++i) {
      if (std::ranges::find(suspects_[i].gpus, gpu) == suspects_[i].gpus.end()) continue;
      const auto has = membership_.contains(i, user);
      if (!has) seen.attribution = ObservedProcess::Attribution::unknown;
      if (!has || !*has) continue;
      seen.attribution = ObservedProcess::Attribution::member;
      seen.lease = suspects_[i].lease;
      return;
    }
  }

  const std::vector<lease::ObservedLease>& suspects_;
  const processes::Evidence& evidence_;
  const Membership membership_;
};

}  // namespace

GpuLists gpu_lists_of(const Snapshot& snapshot, const std::vector<DeviceId>& gpus,
                      TimePoint asked) {
  GpuLists lists{.taken_at = asked};
  for (const DeviceId& gpu : gpus) {
    auto& computing = lists.computing[gpu];
    auto& used = lists.used_bytes[gpu];
    const auto device = std::ranges::find_if(
        snapshot.devices, [&](const DeviceState& one) { return one.info.id == gpu; });
    // While no driver is loaded, the newest lists are outdated.
    if (device == snapshot.devices.end() || !snapshot.driver.initialised) continue;
    const bool answers = device->condition == DeviceCondition::responsive;
    const std::int64_t* const bytes = device->sample.number(Metric::memory_used);
    if (answers && bytes != nullptr) {
      used = std::max<std::int64_t>(*bytes - drawing_bytes(*device), 0);
    }
    computing = compute_processes_on(*device);
    if (!computing) continue;
    const TimePoint taken = device->sample.processes()->taken;
    lists.taken_at = std::min(lists.taken_at, taken);
    for (const GpuProcess& process : *computing) {
      TimePoint& newest = lists.listed.try_emplace(process.pid, taken).first->second;
      newest = std::max(newest, taken);
    }
  }
  return lists;
}

std::vector<processes::LeaseProcesses> lease_processes_of(
    const std::vector<lease::ObservedLease>& suspects) {
  std::vector<processes::LeaseProcesses> lessees;
  for (const lease::ObservedLease& suspect : suspects) {
    processes::LeaseProcesses& lessee = lessees.emplace_back();
    lessee.lease = suspect.lease;
    lessee.uid = suspect.uid;
    lessee.whole_user = suspect.whole_user;
    for (const auto& [pid, started] : suspect.processes) lessee.known.push_back({pid, started});
  }
  return lessees;
}

lease::Observation make_observation(const GpuLists& lists,
                                    const std::vector<lease::ObservedLease>& suspects,
                                    const std::vector<processes::LeaseProcesses>& lessees,
                                    const processes::Evidence& evidence) {
  const ProcessAttributor judge(suspects, lessees, evidence);
  lease::Observation sight{.taken_at = lists.taken_at, .used_bytes = lists.used_bytes};
  for (const auto& [gpu, computing] : lists.computing) {
    auto& seen = sight.processes_by_gpu[gpu];
    if (!computing) continue;
    seen.emplace();
    for (const GpuProcess& process : *computing) seen->push_back(judge.observed(process, gpu));
  }
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    sight.alive_by_lease[suspects[i].lease] = judge.alive(i);
    sight.by_container[suspects[i].lease] = judge.alive_by_container(i);
  }
  return sight;
}

lease::Observation failed_observation(const std::vector<lease::ObservedLease>& suspects,
                                      const std::vector<DeviceId>& gpus, TimePoint asked) {
  lease::Observation sight{.taken_at = asked};
  for (const DeviceId& gpu : gpus) {
    sight.processes_by_gpu[gpu] = std::nullopt;
    sight.used_bytes[gpu] = std::nullopt;
  }
  for (const lease::ObservedLease& suspect : suspects)
    sight.alive_by_lease[suspect.lease] = suspect.processes;
  return sight;
}

}  // namespace gpuyard::daemon
