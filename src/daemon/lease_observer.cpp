#include "daemon/lease_observer.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/try.h"
#include "core/processes/identify.h"
#include "core/processes/mark_client.h"
#include "daemon/lease_observation.h"

namespace gpuyard::daemon {
namespace {

Result<lease::ProcessIdentity> identity_of(std::uint32_t pid,
                                           const std::shared_ptr<processes::MarkClient>& marks) {
  processes::HiddenProcessViewer view_hidden;
  if (marks) {
    view_hidden = [&](std::uint32_t one) { return marks->view(processes::PidSpace::ours, one); };
  }
  auto identity = GPUYARD_TRY(processes::identify_process(pid, view_hidden));
  return lease::ProcessIdentity{{identity.process.pid, identity.process.started},
                                identity.uid,
                                identity.parent,
                                std::move(identity.command),
                                std::make_shared<const UniqueFd>(std::move(identity.handle))};
}

// Sends the signal. Returns the processes that did not get it; a process that is gone is none.
std::vector<lease::SignalFailure> send_signals(
    const std::vector<lease::ProcessKey>& to, int number,
    const std::function<bool(std::uint32_t uid)>& may_be_of) {
  std::vector<lease::SignalFailure> failures;
  for (const lease::ProcessKey& one : to) {
    const auto sent = processes::send_signal({one.pid, one.started}, number, may_be_of);
    if (!sent && sent.error().code != Errc::not_found) failures.push_back({one, sent.error()});
  }
  return failures;
}

// A daemon without CAP_KILL leaves signals to its clients, so this is no warning.
void log_unsignalled(const std::vector<lease::SignalFailure>& failures) {
  if (failures.empty()) return;
  log::info("{} of a lease's processes were not signalled by the daemon; the first: {}",
            failures.size(), failures.front().error.text());
}

Error timeout_error() {
  return {Errc::unavailable, "the process could not be identified in time; try again"};
}

}  // namespace

struct LeaseObserver::PendingObservation {
  std::vector<lease::ObservedLease> suspects;
  std::vector<DeviceId> gpus;
  TimePoint requested_at;
  std::function<void(lease::Observation)> on_observed;
  Subscription timeout_timer = {};
};

LeaseObserver::LeaseObserver(Loop& loop, Worker& worker, telemetry::Telemetry& telemetry,
                             ProcRoots proc_roots)
    : loop_(loop),
      worker_(worker),
      telemetry_(telemetry),
      proc_roots_(std::move(proc_roots)),
      reader_(std::make_shared<processes::EvidenceReader>(
          proc_roots_.proc_root, proc_roots_.own_proc_root, proc_roots_.quota_owner,
          processes::GroupMakers::of_this_machine(), proc_roots_.marks)) {}

LeaseObserver::~LeaseObserver() = default;

bool LeaseObserver::is_worker_stuck() const {
  return std::ranges::any_of(
      submitted_at_, [&](const auto& one) { return loop_.now() - one.second >= kReplyTimeout; });
}

template <class Work, class OnReply>
bool LeaseObserver::submit(Work work, OnReply on_reply) {
  if (submitted_at_.size() >= kMaxPendingRequests || is_worker_stuck()) return false;
  const std::uint64_t id = next_id_++;
  const bool posted = run_on_worker(worker_, std::move(work),
                                    [this, id, on_reply = std::move(on_reply)](auto&& reply) {
                                      submitted_at_.erase(id);
                                      on_reply(std::forward<decltype(reply)>(reply));
                                    });
  if (posted) submitted_at_.emplace(id, loop_.now());
  return posted;
}

void LeaseObserver::identify(std::uint32_t pid,
                             std::function<void(Result<lease::ProcessIdentity>)> on_found) {
  const std::uint64_t id = next_id_++;
  const auto finish = [this, id](Result<lease::ProcessIdentity> identity) {
    auto lookup = lookups_.extract(id);
    if (!lookup.empty()) lookup.mapped().on_reply(std::move(identity));
  };
  const bool submitted =
      submit([pid, marks = proc_roots_.marks] { return identity_of(pid, marks); }, finish);
  lookups_.emplace(id, PendingReply{std::move(on_found),
                                    loop_.call_after(submitted ? kReplyTimeout : Duration::zero(),
                                                     [finish] { finish(timeout_error()); })});
}

void LeaseObserver::observe(std::vector<lease::ObservedLease> leases, std::vector<DeviceId> gpus,
                            bool fresh, std::function<void(lease::Observation)> on_observed) {
  const std::uint64_t id = next_id_++;
  PendingObservation& pending =
      observations_
          .emplace(id, PendingObservation{std::move(leases), std::move(gpus), loop_.now(),
                                          std::move(on_observed)})
          .first->second;
  pending.timeout_timer = loop_.call_after(kReplyTimeout, [this, id] { fail_observation(id); });
  if (!fresh || pending.gpus.empty()) return on_lists(id, telemetry_.latest());
  telemetry_.read_fresh({Probe::processes, Probe::memory}, pending.gpus,
                        [this, id](const telemetry::SnapshotPtr& lists) { on_lists(id, lists); });
}

void LeaseObserver::on_lists(std::uint64_t id, const telemetry::SnapshotPtr& snapshot) {
  const auto found = observations_.find(id);
  if (found == observations_.end()) return;
  PendingObservation& pending = found->second;
  const bool submitted = submit(
      [reader = reader_, leases = pending.suspects,
       lists = gpu_lists_of(*snapshot, pending.gpus, pending.requested_at),
       pid_origin = processes::pid_origin_of(*snapshot, proc_roots_.recorded)] {
        const auto lease_processes = lease_processes_of(leases);
        const auto evidence =
            reader->read(lease_processes, lists.listed, pid_origin, BootClock::now());
        return make_observation(lists, leases, lease_processes, evidence);
      },
      [this, id](lease::Observation observation) {
        finish_observation(id, std::move(observation));
      });
  if (!submitted) {
    pending.timeout_timer =
        loop_.call_after(Duration::zero(), [this, id] { fail_observation(id); });
  }
}

void LeaseObserver::fail_observation(std::uint64_t id) {
  const auto pending = observations_.find(id);
  if (pending == observations_.end()) return;
  finish_observation(id, failed_observation(pending->second.suspects, pending->second.gpus,
                                            pending->second.requested_at));
}

void LeaseObserver::finish_observation(std::uint64_t id, lease::Observation observation) {
  const auto pending = observations_.extract(id);
  if (!pending.empty()) pending.mapped().on_observed(std::move(observation));
}

// A signal does not wait for the worker, which a process of the lease may hold up.
void LeaseObserver::signal(std::vector<lease::ProcessKey> to, int number,
                           std::optional<std::uint32_t> only_of,
                           std::function<void(std::vector<lease::SignalFailure>)> on_done) {
  std::function<bool(std::uint32_t uid)> may_be_of;
  if (only_of) {
    may_be_of = [target_uid = *only_of, quota_owner = proc_roots_.quota_owner](std::uint32_t uid) {
      return uid == target_uid || (quota_owner && quota_owner(uid) == quota_owner(target_uid));
    };
  }
  const std::uint64_t id = next_id_++;
  const auto finish = [this, id](std::vector<lease::SignalFailure> failures) {
    const auto pending = signals_.extract(id);
    if (pending.empty()) return;
    log_unsignalled(failures);
    pending.mapped().on_reply(std::move(failures));
  };
  const auto now = [to, number, may_be_of] { return send_signals(to, number, may_be_of); };
  const bool submitted = submit(now, finish);
  std::vector<lease::SignalFailure> failures;
  if (!submitted) {
    failures = now();
  } else {
    for (const lease::ProcessKey& one : to) failures.push_back({one, timeout_error()});
  }
  signals_.emplace(id, PendingReply{std::move(on_done),
                                    loop_.call_after(submitted ? kReplyTimeout : Duration::zero(),
                                                     [finish, failures] { finish(failures); })});
}

}  // namespace gpuyard::daemon
