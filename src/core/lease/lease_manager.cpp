// Claims: how they are made, decided and answered. See also lease_manager_changes.cpp for requests
// about existing leases, lease_manager_restore.cpp for restoring them, lease_manager_time.cpp for
// changes without a request, and lease_manager_jobs.cpp for the jobs of an external allocator.
#include "core/lease/lease_manager.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/identifiers.h"
#include "base/log.h"
#include "base/proc_stat.h"
#include "core/lease/placement.h"

namespace gpuyard::lease {
namespace {

Fairness enable_draining(Fairness fairness) {
  fairness.drains = true;
  return fairness;
}

}  // namespace

LeaseManager::LeaseManager(Loop& loop, ProcessObserver& observer, LeaseStorage& storage,
                           LeasePolicy policy, std::string boot_id)
    : loop_(loop),
      observer_(observer),
      policy_(std::move(policy)),
      boot_id_(std::move(boot_id)),
      quotas_(policy_),
      scheduler_(enable_draining(policy_.fairness)),
      gpus_(scheduler_),
      store_(loop, storage, [this](std::uint32_t uid) { return quota_owner(uid); },
             {[this](const Lease& now, LeaseState before) { notify(now, before); },
              [this](const Error& why) { on_store_failed(why); }}),
      holders_(loop, observer, std::min(policy_.max_waiting_claims, kMaxKnownProcesses),
               [this](const std::string& id, const ProcessKey& process) { on_gone(id, process); }),
      clients_(loop),
      live_(store_),
      readiness_(gpus_) {
  scheduler_.close();
  if (policy_.mode == GrantMode::observe) gpus_.observe_only(Allocator::slurm);
}

void LeaseManager::claim(const Caller& caller, std::string id, const LeaseSpec& spec,
                         const OnLease& on_lease) {
  if (id.empty()) id = new_id();
  const OnLease reply = [this, id, caller, on_lease](Result<Lease> lease) {
    const bool held = lease && lease->state == LeaseState::held;
    if (held && !caller.is_gone()) clients_.acknowledge_grant(id);
    on_lease(std::move(lease));
  };
  if (auto valid = check_spec(spec); !valid) return refuse(loop_, valid.error(), reply);
  if (store_.find_latest(id) || spec.binding == Binding::detached) {
    return enqueue_claim(caller, std::nullopt, id, spec, reply);
  }
  if (caller.pid == 0) {
    return refuse(
        loop_,
        {Errc::invalid,
         "a lease bound to a process needs the caller's process, which is known only on a Unix "
         "socket within one PID namespace; request a detached lease, which lasts for a fixed time"},
        reply);
  }
  holders_.identify(caller.pid, [this, caller, id, spec, reply](Result<ProcessIdentity> found) {
    if (found && caller.is_gone()) found = Error{Errc::not_found, "the caller has exited"};
    if (!found) return refuse(loop_, std::move(found).error().in("the caller"), reply);
    enqueue_claim(caller, *found, id, spec, reply);
  });
}

// All that is needed is known; the claim now enters the queue.
void LeaseManager::enqueue_claim(const Caller& caller, const std::optional<ProcessIdentity>& holder,
                                 const std::string& id, const LeaseSpec& spec,
                                 const OnLease& on_lease) {
  if (auto why = readiness_.claim_error()) return refuse(loop_, *why, on_lease);
  if (const Lease* known = store_.find_latest(id))
    return answer_repeated_claim(caller, *known, spec, on_lease);
  if (const auto why = readiness_.observe_only_error(spec.gpus))
    return refuse(loop_, *why, on_lease);
  if (auto allowed = quotas_.check_claim_rate(caller, loop_.now()); !allowed) {
    return refuse(loop_, allowed.error(), on_lease);
  }
  const GpuRequest request = gpu_request_of(caller.uid, spec);
  if (auto possible = scheduler_.check_satisfiable(request); !possible)
    return refuse(loop_, possible.error(), on_lease);
  Lease lease;
  lease.id = id;
  lease.uid = caller.uid;
  lease.spec = spec;
  lease.boot_id = boot_id_;
  lease.requested_at = loop_.now();
  lease.requested_wall = loop_.wall();
  if (holder) lease.processes.push_back(holder->key);
  if (spec.wait_timeout == Duration::zero())
    return claim_immediately(caller, holder, lease, request, on_lease);
  if (auto allowed = quotas_.check_queue_quota(caller, scheduler_.waiting_claims().size());
      !allowed) {
    return refuse(loop_, allowed.error(), on_lease);
  }

  Effects effects;
  lease.ticket = scheduler_.claim(request, loop_.now(), effects);
  live_.add(lease);
  quotas_.add_waiting(caller.uid);
  store_.stage(lease, "asked", caller.name());
  store_.stage_counters(scheduler_.last_ticket(), scheduler_.last_fence());
  if (holder) holders_.bind(id, *holder);
  apply_effects(effects);
  schedule_tick(loop_.now() + std::min(spec.wait_timeout.value_or(kTickInterval), kTickInterval));
  store_.answer_when_committed(id, on_lease);
}

void LeaseManager::claim_immediately(const Caller& caller,
                                     const std::optional<ProcessIdentity>& holder, Lease lease,
                                     const GpuRequest& request, const OnLease& on_lease) {
  if (const auto why = readiness_.grant_error()) return refuse(loop_, *why, on_lease);
  const auto ticket = scheduler_.try_claim(request, loop_.now());
  if (!ticket) {  // its end is not stored
    lease.state = LeaseState::ended;
    lease.end_reason = EndReason::none_free;
    lease.ended_wall = loop_.wall();
    loop_.post([on_lease, lease] { on_lease(lease); });
    return;
  }
  lease.ticket = *ticket;
  live_.add(lease);
  quotas_.add_waiting(caller.uid);
  store_.stage(lease, "asked", caller.name());
  if (holder) holders_.bind(lease.id, *holder);
  grant(*scheduler_.find(*ticket));
  store_.answer_when_committed(lease.id, on_lease);
}

Result<Offer> LeaseManager::offer(std::uint32_t uid, const LeaseSpec& spec) const {
  if (const auto why = readiness_.grant_error()) return *why;
  if (const auto why = readiness_.observe_only_error(spec.gpus))
    return Offer{.reason = why->text()};
  const GpuRequest request = gpu_request_of(uid, spec);
  GpuRequest single_request = request;
  single_request.count = 1;
  const GpuSet any = scheduler_.available_gpus(single_request);
  Offer offer{gpus_.ids_of(any)};
  if (const GpuSet available = request.count == 1 ? any : scheduler_.available_gpus(request);
      available.any()) {
    offer.chosen = gpus_.ids_of(choose_placement(scheduler_.gpus(), available, request.count));
  } else if (const auto possible = scheduler_.check_satisfiable(request); !possible) {
    offer.reason = possible.error().text();
  } else if (quotas_.exceeds_gpu_limit(scheduler_, uid, request.count)) {
    offer.reason = quotas_.gpu_limit_text();
    offer.over_limit = true;
  } else {
    offer.reason = fmt::format("{} of {} matching GPUs {} free", offer.free.size(),
                               request.eligible.count(), offer.free.size() == 1 ? "is" : "are");
  }
  return offer;
}

// Answers a repeated call with the state of its lease.
void LeaseManager::answer_repeated_claim(const Caller& caller, const Lease& known,
                                         const LeaseSpec& spec, const OnLease& on_lease) {
  if (known.uid != caller.uid) {
    return refuse(loop_, {Errc::conflict, "this ID belongs to another user's lease"}, on_lease);
  }
  if (!(known.spec == spec)) {
    return refuse(
        loop_,
        {Errc::conflict, "this ID was used for a different request; a new claim needs a new ID"},
        on_lease);
  }
  store_.answer_when_committed(known.id, on_lease);
}

GpuRequest LeaseManager::gpu_request_of(std::uint32_t uid, const LeaseSpec& spec) const {
  GpuRequest request;
  request.owner = quota_owner(uid);
  request.count = spec.gpus;
  request.eligible = gpus_.eligible_gpus(spec);
  request.min_free_bytes = spec.min_free_bytes;
  request.max_hold_time = spec.max_hold_time;
  return request;
}

void LeaseManager::apply_effects(const Effects& effects) {
  for (const Ticket ticket : effects.granted) grant(*scheduler_.find(ticket));
  for (const Ticket ticket : effects.overtaken) {
    const Lease* found = live_.find(ticket);
    const Claim* claim = scheduler_.find(ticket);
    if (!found || !claim) continue;
    Lease lease = *found;
    lease.overtakes = claim->overtakes;
    store_.stage_without_event(lease);
  }
  for (const Ticket ticket : effects.overdue) mark_overdue(ticket);
}

void LeaseManager::grant(const Claim& claim) {
  Lease lease = *live_.find(claim.ticket);
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
  Lease lease = *live_.find(ticket);
  lease.overdue = true;
  log::warning("lease {} of UID {} is held longer than announced", lease.id, lease.uid);
  if (policy_.end_overdue)
    return begin_drain(lease, EndReason::expired, "its maximum time has passed");
  store_.stage(lease, "overdue");
}

void LeaseManager::begin_drain(Lease lease, EndReason end_reason, const std::string& by,
                               const std::string& detail) {
  apply_effects(scheduler_.release(lease.ticket, loop_.now()));
  lease.state = LeaseState::draining;
  lease.end_reason = end_reason;
  lease.drain_started_wall = loop_.wall();
  lease.detail = detail;
  store_.stage(lease, "draining", by);
  draining_since_ = loop_.now();
  schedule_drain_poll(loop_.now() + kFirstDrainPollDelay);
}

void LeaseManager::end(Lease lease, EndReason end_reason, const std::string& by,
                       const std::string& detail) {
  const bool waited = lease.state == LeaseState::waiting;
  lease.state = LeaseState::ended;
  lease.end_reason = end_reason;
  lease.detail = detail;
  lease.ended_wall = loop_.wall();
  store_.stage(lease, "ended", by);
  holders_.release(lease.id, lease.processes);
  clients_.remove(lease.id);
  drop_signals(lease.id, true);
  with_leftover_.erase(lease.id);
  live_.remove(lease);
  if (waited) quotas_.remove_waiting(lease.uid);
  for (const DeviceId& gpu : lease.gpus) gpus_.mark_freed(gpu, loop_.now());
  apply_effects(waited ? scheduler_.cancel(lease.ticket, loop_.now())
                       : scheduler_.finish_drain(lease.ticket, loop_.now()));
}

// While it is not known what the disk holds, nothing is written; afterwards rebind() finds out
// again that the process is gone.
void LeaseManager::on_gone(const std::string& id, const ProcessKey& process) {
  if (readiness_.phase() == LeaseReadiness::Phase::loading) return;
  const Lease* found = store_.find_latest(id);
  if (!found || found->spec.binding == Binding::detached) return;
  if (found->processes.empty() || found->processes.front() != process) return;
  const std::string by = fmt::format("PID {} exited", process.pid);
  if (found->state == LeaseState::waiting) end(*found, EndReason::exited, by);
  if (found->state == LeaseState::held) begin_drain(*found, EndReason::exited, by);
}

Subscription LeaseManager::mark_present(const std::string& id, PresenceKind kind) {
  const Lease* lease = store_.find_latest(id);
  if (!lease || lease->state == LeaseState::ended) return {};
  return clients_.mark_present(id, kind);
}

Subscription LeaseManager::subscribe(const std::string& id,
                                     std::function<void(const Lease&)> on_change) {
  return clients_.subscribe(id, std::move(on_change));
}

void LeaseManager::notify(const Lease& now, LeaseState before) {
  if (now.state == LeaseState::held && before == LeaseState::waiting) clients_.record_grant(now);
  if (on_change_) on_change_(now, before);
  clients_.notify(now);
}

const Lease* LeaseManager::find(std::string_view id) const {
  return store_.find_committed(id);
}

Result<void> LeaseManager::check_holds_gpu(std::string_view id, std::optional<Fence> fence,
                                           const DeviceId& gpu) const {
  if (!readiness_.has_loaded()) return readiness_.change_error().value_or(unknown_lease_error(id));
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

std::vector<QueueEntry> LeaseManager::queue_entries(std::size_t limit) const {
  std::vector<QueueEntry> all;
  for (const QueuePosition& queue_position : scheduler_.queue_positions(loop_.now(), limit)) {
    const auto found = live_.ids_by_ticket().find(queue_position.ticket);
    if (found != live_.ids_by_ticket().end()) all.push_back({found->second, queue_position});
  }
  return all;
}

}  // namespace gpuyard::lease
