#include "core/lease/lease_transitions.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "core/lease/drain_monitor.h"

namespace gpuyard::lease {

void LeaseTransitions::notify(const Lease& now, LeaseState before) {
  if (now.state == LeaseState::held && before == LeaseState::waiting) clients_.record_grant(now);
  if (on_change_) on_change_(now, before);
  clients_.notify(now);
}

Lease LeaseTransitions::make_lease(std::string id, std::uint32_t uid) const {
  Lease lease;
  lease.id = std::move(id);
  lease.uid = uid;
  lease.boot_id = boot_id_;
  lease.requested_at = loop_.now();
  lease.requested_wall = loop_.wall();
  return lease;
}

GpuRequest LeaseTransitions::gpu_request_of(std::uint32_t uid, const LeaseSpec& spec) const {
  GpuRequest request;
  request.owner = quotas_.quota_owner(uid);
  request.count = spec.gpus;
  request.eligible = gpus_.eligible_gpus(spec);
  request.min_free_bytes = spec.min_free_bytes;
  request.max_hold_time = spec.max_hold_time;
  return request;
}

void LeaseTransitions::enqueue(Lease lease, const GpuRequest& request,
                               const std::optional<ProcessIdentity>& holder) {
  Effects effects;
  lease.ticket = scheduler_.claim(request, loop_.now(), effects);
  add(lease);
  store_.stage_counters(scheduler_.last_ticket(), scheduler_.last_fence());
  if (holder) holders_.bind(lease.id, *holder);
  apply_effects(effects);
  schedule_tick(loop_.now() +
                std::min(lease.spec.wait_timeout.value_or(kTickInterval), kTickInterval));
}

void LeaseTransitions::grant_at_once(const Lease& lease,
                                     const std::optional<ProcessIdentity>& holder) {
  add(lease);
  if (holder) holders_.bind(lease.id, *holder);
  grant(*scheduler_.find(lease.ticket));
}

void LeaseTransitions::add(const Lease& lease) {
  live_.add(lease);
  quotas_.add_waiting(lease.uid);
  store_.stage(lease);
}

void LeaseTransitions::apply_effects(const Effects& effects) {
  for (const Ticket ticket : effects.granted) grant(*scheduler_.find(ticket));
  for (const Ticket ticket : effects.overtaken) {
    const Lease* found = live_.find(ticket);
    const Claim* claim = scheduler_.find(ticket);
    if (!found || !claim) continue;
    Lease lease = *found;
    lease.overtakes = claim->overtakes;
    store_.stage(lease);
  }
  for (const Ticket ticket : effects.overdue) mark_overdue(ticket);
}

void LeaseTransitions::grant(const Claim& claim) {
  Lease lease = *live_.find(claim.ticket);
  lease.state = LeaseState::held;
  lease.fence = claim.fence;
  lease.gpus = gpus_.ids_of(claim.gpus);
  lease.granted_at = loop_.now();
  lease.granted_wall = loop_.wall();
  if (lease.spec.binding == Binding::detached) lease.expires_at = loop_.now() + lease.spec.ttl;
  quotas_.remove_waiting(lease.uid);
  store_.stage(lease);
  store_.stage_counters(scheduler_.last_ticket(), scheduler_.last_fence());
  schedule_tick(loop_.now() + kTickInterval);
}

void LeaseTransitions::mark_overdue(Ticket ticket) {
  Lease lease = *live_.find(ticket);
  lease.overdue = true;
  log::warning("lease {} of UID {} is held longer than announced", lease.id, lease.uid);
  if (policy_.end_overdue) return begin_drain(lease, EndReason::expired);
  store_.stage(lease);
}

void LeaseTransitions::begin_drain(Lease lease, EndReason end_reason, const std::string& detail) {
  apply_effects(scheduler_.release(lease.ticket, loop_.now()));
  lease.state = LeaseState::draining;
  lease.end_reason = end_reason;
  lease.drain_started_wall = loop_.wall();
  lease.detail = detail;
  store_.stage(lease);
  drains_.on_drain_begun();
}

void LeaseTransitions::end(Lease lease, EndReason end_reason, const std::string& detail) {
  const bool waited = lease.state == LeaseState::waiting;
  lease.state = LeaseState::ended;
  lease.end_reason = end_reason;
  lease.detail = detail;
  lease.ended_wall = loop_.wall();
  store_.stage(lease);
  holders_.release(lease.id, lease.processes);
  clients_.remove(lease.id);
  drains_.remove(lease.id);
  live_.remove(lease);
  if (waited) quotas_.remove_waiting(lease.uid);
  for (const DeviceId& gpu : lease.gpus) gpus_.mark_freed(gpu, loop_.now());
  apply_effects(waited ? scheduler_.cancel(lease.ticket, loop_.now())
                       : scheduler_.finish_drain(lease.ticket, loop_.now()));
}

// While it is not known what the disk holds, nothing is written; afterwards LeaseRecovery finds out
// again that the process is gone.
void LeaseTransitions::on_gone(const std::string& id, const ProcessKey& process) {
  if (readiness_.phase() == LeaseReadiness::Phase::loading) return;
  const Lease* found = store_.find_latest(id);
  if (!found || found->spec.binding == Binding::detached) return;
  if (found->processes.empty() || found->processes.front() != process) return;
  if (found->state == LeaseState::waiting) end(*found, EndReason::exited);
  if (found->state == LeaseState::held) begin_drain(*found, EndReason::exited);
}

bool LeaseTransitions::restore(const Lease& saved) {
  if (saved.boot_id != boot_id_) {
    Lease lease = saved;
    lease.state = LeaseState::ended;
    lease.end_reason = EndReason::node_reboot;
    lease.ended_wall = loop_.wall();
    store_.stage(lease);
    return false;
  }
  live_.add(saved);
  if (saved.state == LeaseState::waiting) quotas_.add_waiting(saved.uid);
  restore_in_scheduler(saved);
  schedule_tick(loop_.now() + kTickInterval);
  return true;
}

void LeaseTransitions::restore_in_scheduler(const Lease& lease) {
  Claim claim;
  claim.ticket = lease.ticket;
  claim.request = gpu_request_of(lease.uid, lease.spec);
  claim.fence = lease.fence;
  claim.granted_at = lease.granted_at;
  claim.overtakes = lease.overtakes;
  claim.overdue = lease.overdue;
  if (lease.state == LeaseState::held) claim.stage = Claim::Stage::held;
  if (lease.state == LeaseState::draining) claim.stage = Claim::Stage::draining;
  for (const DeviceId& gpu : lease.gpus) {
    if (const auto slot = gpus_.slot_of(gpu)) claim.gpus.set(*slot);
  }
  scheduler_.restore(claim);
}

void LeaseTransitions::refresh(const DeviceId& gpu) {
  if (const auto slot = gpus_.slot_of(gpu)) {
    apply_effects(scheduler_.set_availability(*slot, gpus_.availability(gpu), loop_.now()));
  }
}

void LeaseTransitions::schedule_tick(TimePoint when) {
  if (readiness_.phase() == LeaseReadiness::Phase::idle || (tick_at_ && *tick_at_ <= when)) return;
  tick_at_ = when;
  tick_timer_ = loop_.call_at(when, [this] { tick(); });
}

// The timer stops while there is no lease.
void LeaseTransitions::tick() {
  tick_at_.reset();
  if (readiness_.is_open()) {
    std::vector<std::string> live;
    live.reserve(live_.ids_by_ticket().size());
    for (const auto& [ticket, id] : live_.ids_by_ticket()) live.push_back(id);
    for (const std::string& id : live) {
      if (const Lease* lease = store_.find_latest(id)) tick_lease(*lease);
    }
    apply_effects(scheduler_.advance(loop_.now()));
    store_.prune_ended();
  }
  if (!live_.ids_by_ticket().empty()) schedule_tick(loop_.now() + kTickInterval);
}

void LeaseTransitions::tick_lease(const Lease& lease) {
  const TimePoint now = loop_.now();
  if (lease.state == LeaseState::waiting) {
    if (lease.spec.wait_timeout && now - lease.requested_at >= *lease.spec.wait_timeout) {
      return end(lease, EndReason::gave_up);
    }
    const auto away =
        clients_.away_since(lease.id, std::max(lease.requested_at, readiness_.opened_at()));
    if (away && now - *away >= kReconnectTimeout) {
      return end(lease, EndReason::unreachable, "its client disconnected");
    }
    return;
  }
  if (lease.state != LeaseState::held) return;
  if (lease.expires_at && now >= *lease.expires_at) {
    return begin_drain(lease, EndReason::expired);
  }
  if (lease.overdue && policy_.end_overdue) {  // the setting was switched on after that
    return begin_drain(lease, EndReason::expired);
  }
  if (!clients_.is_grant_acknowledged(lease.id) && now - lease.granted_at >= kReconnectTimeout) {
    return begin_drain(lease, EndReason::unreachable, "its client did not receive the grant");
  }
  if (lease.spec.binding != Binding::process) return;
  const auto gone = clients_.stream_gone_since(lease.id);
  if (gone && now - *gone >= kStreamGrace) {
    begin_drain(lease, EndReason::unreachable, "its connection closed");
  }
}

}  // namespace gpuyard::lease
