// Claims: how they are made, decided and told. See also lease_manager_changes.cpp for requests
// about existing leases, lease_manager_restore.cpp for making them from what was kept, and
// lease_manager_time.cpp for changes without a request, lease_manager_jobs.cpp for the jobs of
// Slurm.
#include "core/lease/lease_manager.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"

namespace gpuyard::lease {
namespace {

Fairness enable_draining(Fairness fairness) {
  fairness.drains = true;
  return fairness;
}

}  // namespace

LeaseManager::LeaseManager(Loop& loop, ProcessObserver& observer, LeaseStorage& archive,
                           LeasePolicy policy, std::string boot_id)
    : loop_(loop),
      observer_(observer),
      policy_(std::move(policy)),
      boot_id_(std::move(boot_id)),
      quotas_(policy_),
      scheduler_(enable_draining(policy_.fairness)),
      gpus_(scheduler_),
      store_(loop, archive, [this](std::uint32_t uid) { return quota_owner(uid); },
             {[this](const Lease& now, LeaseState before) { notify(now, before); },
              [this](const Error& why) { on_store_failed(why); }}),
      holders_(loop, observer, std::min(policy_.max_waiting_claims, kMaxKnownProcesses),
               [this](const std::string& id, const ProcessKey& process) { on_gone(id, process); }),
      clients_(loop) {
  scheduler_.close();
  if (policy_.mode == GrantMode::observe) gpus_.observe_only();
}

void LeaseManager::claim(const Caller& caller, std::string id, const LeaseSpec& wish,
                         const OnLease& asker) {
  if (id.empty()) id = new_id();
  const OnLease answer = [this, id, caller, asker](Result<Lease> lease) {
    const bool held = lease && lease->state == LeaseState::held;
    if (held && !caller.is_gone()) clients_.acknowledge_grant(id);
    asker(std::move(lease));
  };
  if (auto valid = check_spec(wish); !valid) return refuse(valid.error(), answer);
  if (store_.find_latest(id) || wish.binding == Binding::detached) {
    return enqueue_claim(caller, std::nullopt, id, wish, answer);
  }
  if (caller.pid == 0) {
    return refuse(
        {Errc::invalid,
         "a lease bound to a process needs the caller's process, which is known only on a Unix "
         "socket within one PID namespace; request a detached lease, which lasts for a fixed time"},
        answer);
  }
  holders_.identify(caller.pid, [this, caller, id, wish, answer](Result<ProcessIdentity> found) {
    if (found && caller.is_gone()) found = Error{Errc::not_found, "the caller has exited"};
    if (!found) return refuse(std::move(found).error().in("the caller"), answer);
    enqueue_claim(caller, *found, id, wish, answer);
  });
}

// All that is needed is known; the claim now gets its place in the order.
void LeaseManager::enqueue_claim(const Caller& caller, const std::optional<ProcessIdentity>& holder,
                                 const std::string& id, const LeaseSpec& wish,
                                 const OnLease& answer) {
  if (auto why = claim_error()) return refuse(*why, answer);
  if (const Lease* known = store_.find_latest(id))
    return answer_repeated_claim(caller, *known, wish, answer);
  if (const auto why = observe_only_error(wish.gpus)) return refuse(*why, answer);
  if (auto slow = quotas_.check_claim_rate(caller, loop_.now()); !slow) {
    return refuse(slow.error(), answer);
  }
  const GpuRequest terms = gpu_request_of(caller.uid, wish);
  if (auto possible = scheduler_.check_satisfiable(terms); !possible)
    return refuse(possible.error(), answer);
  Lease lease;
  lease.id = id;
  lease.uid = caller.uid;
  lease.spec = wish;
  lease.boot_id = boot_id_;
  lease.requested_at = loop_.now();
  lease.requested_wall = loop_.wall();
  if (holder) lease.processes.push_back(holder->key);
  if (wish.wait_timeout == Duration::zero())
    return claim_immediately(caller, holder, lease, terms, answer);
  if (auto room = quotas_.check_queue_quota(caller, scheduler_.waiting_claims().size()); !room) {
    return refuse(room.error(), answer);
  }

  Effects effects;
  lease.ticket = scheduler_.claim(terms, loop_.now(), effects);
  ids_by_ticket_[lease.ticket] = id;
  quotas_.add_waiting(caller.uid);
  store_.stage(lease, "asked", caller.name());
  store_.stage_counters(scheduler_.last_ticket(), scheduler_.last_fence());
  if (holder) holders_.bind(id, *holder);
  apply_effects(effects);
  schedule_tick(loop_.now() + std::min(wish.wait_timeout.value_or(kTickInterval), kTickInterval));
  answer_when_committed(id, answer);
}

void LeaseManager::claim_immediately(const Caller& caller,
                                     const std::optional<ProcessIdentity>& holder, Lease lease,
                                     const GpuRequest& terms, const OnLease& answer) {
  if (const auto why = grant_error()) return refuse(*why, answer);
  const auto ticket = scheduler_.try_claim(terms, loop_.now());
  if (!ticket) {  // nobody has to remember it
    lease.state = LeaseState::ended;
    lease.end_reason = EndReason::none_free;
    lease.ended_wall = loop_.wall();
    loop_.post([answer, lease] { answer(lease); });
    return;
  }
  lease.ticket = *ticket;
  ids_by_ticket_[lease.ticket] = lease.id;
  quotas_.add_waiting(caller.uid);
  store_.stage(lease, "asked", caller.name());
  if (holder) holders_.bind(lease.id, *holder);
  grant(*scheduler_.find(*ticket));
  answer_when_committed(lease.id, answer);
}

Result<Offer> LeaseManager::offer(std::uint32_t uid, const LeaseSpec& wish) const {
  if (const auto why = grant_error()) return *why;
  if (const auto why = observe_only_error(wish.gpus)) return Offer{.reason = why->text()};
  const GpuRequest terms = gpu_request_of(uid, wish);
  GpuRequest of_one = terms;
  of_one.count = 1;
  const GpuSet any = scheduler_.available_gpus(of_one);
  Offer offer{gpus_.ids_of(any)};
  if (const GpuSet left = terms.count == 1 ? any : scheduler_.available_gpus(terms); left.any()) {
    offer.chosen = gpus_.ids_of(choose_placement(scheduler_.gpus(), left, terms.count));
  } else if (const auto possible = scheduler_.check_satisfiable(terms); !possible) {
    offer.reason = possible.error().text();
  } else if (exceeds_quota(uid, terms.count)) {
    offer.reason = limit_text();
    offer.over_limit = true;
  } else {
    offer.reason = fmt::format("{} of {} matching GPUs {} free", offer.free.size(),
                               terms.eligible.count(), offer.free.size() == 1 ? "is" : "are");
  }
  return offer;
}

// Answers a repeated call with the state of its lease.
void LeaseManager::answer_repeated_claim(const Caller& caller, const Lease& known,
                                         const LeaseSpec& wish, const OnLease& answer) {
  if (known.uid != caller.uid) {
    return refuse({Errc::conflict, "this ID belongs to another user's lease"}, answer);
  }
  if (!(known.spec == wish)) {
    return refuse(
        {Errc::conflict, "this ID was used for a different request; a new claim needs a new ID"},
        answer);
  }
  answer_when_committed(known.id, answer);
}

GpuRequest LeaseManager::gpu_request_of(std::uint32_t uid, const LeaseSpec& wish) const {
  GpuRequest terms;
  terms.owner = quota_owner(uid);
  terms.count = wish.gpus;
  terms.eligible = gpus_.eligible_gpus(wish);
  terms.min_free_bytes = wish.min_free_bytes;
  terms.max_hold_time = wish.max_hold_time;
  return terms;
}

void LeaseManager::refuse(const Error& why, const OnLease& answer) {
  loop_.post([answer, why] { answer(why); });
}

void LeaseManager::answer_when_committed(const std::string& id, const OnLease& answer) {
  store_.when_committed([this, id, answer](const Result<void>& kept) {
    if (!kept) return answer(Error(kept.error()).in("the journal of leases"));
    const Lease* lease = find(id);
    if (!lease) return answer(unknown_lease_error(id));
    answer(*lease);
  });
}

void LeaseManager::apply_effects(const Effects& effects) {
  for (const Ticket ticket : effects.granted) grant(*scheduler_.find(ticket));
  for (const Ticket ticket : effects.overtaken) {
    const auto found = ids_by_ticket_.find(ticket);
    const Claim* claim = scheduler_.find(ticket);
    if (found == ids_by_ticket_.end() || !claim) continue;
    Lease lease = *store_.find_latest(found->second);
    lease.overtakes = claim->overtakes;
    store_.stage_without_event(lease);
  }
  for (const Ticket ticket : effects.overdue) mark_overdue(ticket);
}

void LeaseManager::grant(const Claim& claim) {
  Lease lease = *store_.find_latest(ids_by_ticket_.at(claim.ticket));
  lease.state = LeaseState::held;
  lease.fence = claim.fence;
  lease.gpus = gpus_.ids_of(claim.gpus);
  lease.granted_at = loop_.now();
  lease.granted_wall = loop_.wall();
  if (lease.spec.binding == Binding::detached) lease.expires_at = loop_.now() + lease.spec.ttl;
  quotas_.remove_waiting(lease.uid);
  store_.stage(lease, "granted");
  store_.stage_counters(scheduler_.last_ticket(), scheduler_.last_fence());
  schedule_tick(loop_.now() + kTickInterval);
}

void LeaseManager::mark_overdue(Ticket ticket) {
  Lease lease = *store_.find_latest(ids_by_ticket_.at(ticket));
  lease.overdue = true;
  log::warning("lease {} of UID {} is held longer than announced", lease.id, lease.uid);
  if (policy_.end_overdue)
    return begin_drain(lease, EndReason::expired, "its maximum time has passed");
  store_.stage(lease, "overdue");
}

void LeaseManager::begin_drain(Lease lease, EndReason ending, const std::string& by,
                               const std::string& why) {
  apply_effects(scheduler_.release(lease.ticket, loop_.now()));
  lease.state = LeaseState::draining;
  lease.end_reason = ending;
  lease.drain_started_wall = loop_.wall();
  lease.detail = why;
  store_.stage(lease, "draining", by);
  poll_drains();
}

void LeaseManager::end(Lease lease, EndReason ending, const std::string& by,
                       const std::string& why) {
  const bool waited = lease.state == LeaseState::waiting;
  lease.state = LeaseState::ended;
  lease.end_reason = ending;
  lease.detail = why;
  lease.ended_wall = loop_.wall();
  store_.stage(lease, "ended", by);
  holders_.release(lease.id, lease.processes);
  clients_.remove(lease.id);
  drop_signals(lease.id, true);
  alive_processes_.erase(lease.id);
  with_leftover_.erase(lease.id);
  ids_by_ticket_.erase(lease.ticket);
  if (waited) quotas_.remove_waiting(lease.uid);
  for (const DeviceId& gpu : lease.gpus) gpus_.mark_freed(gpu, loop_.now());
  apply_effects(waited ? scheduler_.cancel(lease.ticket, loop_.now())
                       : scheduler_.finish_drain(lease.ticket, loop_.now()));
}

// While it is not known what the disk holds, nothing is written; afterwards rebind() finds out
// again that the process is gone.
void LeaseManager::on_gone(const std::string& id, const ProcessKey& process) {
  if (startup_phase_ == StartupPhase::loading) return;
  const Lease* found = store_.find_latest(id);
  if (!found || found->spec.binding == Binding::detached) return;
  if (found->processes.empty() || found->processes.front() != process) return;
  const std::string by = fmt::format("PID {} exited", process.pid);
  if (found->state == LeaseState::waiting) end(*found, EndReason::exited, by);
  if (found->state == LeaseState::held) begin_drain(*found, EndReason::exited, by);
}

Subscription LeaseManager::mark_present(const std::string& id, PresenceKind how) {
  const Lease* lease = store_.find_latest(id);
  if (!lease || lease->state == LeaseState::ended) return {};
  return clients_.mark_present(id, how);
}

Subscription LeaseManager::subscribe(const std::string& id,
                                     std::function<void(const Lease&)> told) {
  return clients_.subscribe(id, std::move(told));
}

void LeaseManager::notify(const Lease& now, LeaseState before) {
  if (now.state == LeaseState::held && before == LeaseState::waiting) clients_.record_grant(now);
  if (on_change_) on_change_(now, before);
  clients_.notify(now);
}

const Lease* LeaseManager::find(std::string_view id) const {
  const auto found = store_.committed().find(id);
  return found == store_.committed().end() ? nullptr : &found->second;
}

Result<void> LeaseManager::check_holds_gpu(std::string_view id, std::optional<Fence> fence,
                                           const DeviceId& gpu) const {
  if (!has_loaded()) return change_error().value_or(unknown_lease_error(id));
  const Lease* lease = find(id);
  if (!lease) return unknown_lease_error(id);
  if (lease->state != LeaseState::held) return not_held_error(*lease);
  if (fence && *fence != lease->fence) {
    return Error{Errc::conflict,
                 fmt::format("fence {} is older than that of the lease, {}", *fence, lease->fence)};
  }
  if (std::find(lease->gpus.begin(), lease->gpus.end(), gpu) != lease->gpus.end()) return {};
  return Error{Errc::conflict, fmt::format("lease {} does not include this GPU", id)};
}

std::vector<QueueEntry> LeaseManager::queue_entries(std::size_t most) const {
  std::vector<QueueEntry> all;
  for (const QueuePosition& outlook : scheduler_.queue_positions(loop_.now(), most)) {
    const auto found = ids_by_ticket_.find(outlook.ticket);
    if (found != ids_by_ticket_.end()) all.push_back({found->second, outlook});
  }
  return all;
}

}  // namespace gpuyard::lease
