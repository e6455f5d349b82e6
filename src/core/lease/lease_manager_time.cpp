// Changes of leases without a request: time passes, GPUs and processes come and go.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "core/lease/lease_manager.h"
#include "core/lease/leftover.h"

namespace gpuyard::lease {
namespace {

constexpr std::string_view kLeftoverSeparator = "; still: ";

// Returns an administrator's reason, without the text of the leftover that follows it.
std::string reason_of(const Lease& lease) {
  return lease.end_reason == EndReason::forced
             ? lease.detail.substr(0, lease.detail.find(kLeftoverSeparator))
             : "";
}

// Polls become rarer the longer a drain lasts.
Duration next_poll_delay(Duration draining) {
  return draining < std::chrono::seconds(5) ? LeaseManager::kDrainPollInterval
                                            : 4 * LeaseManager::kDrainPollInterval;
}

}  // namespace

void LeaseManager::schedule_tick(TimePoint when) {
  if (readiness_.phase() == LeaseReadiness::Phase::idle || (tick_at_ && *tick_at_ <= when)) return;
  tick_at_ = when;
  tick_timer_ = loop_.call_at(when, [this] { tick(); });
}

// The timer stops while there is no lease.
void LeaseManager::tick() {
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

void LeaseManager::tick_lease(const Lease& lease) {
  const TimePoint now = loop_.now();
  if (lease.state == LeaseState::waiting) {
    if (lease.spec.wait_timeout && now - lease.requested_at >= *lease.spec.wait_timeout) {
      return end(lease, EndReason::gave_up, "its waiting time ran out");
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
    return begin_drain(lease, EndReason::expired, "its time ran out");
  }
  if (lease.overdue && policy_.end_overdue) {  // the setting was switched on after that
    return begin_drain(lease, EndReason::expired, "its maximum time has passed");
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

void LeaseManager::on_gpus(const std::vector<PoolGpu>& all) {
  const bool first = !gpus_.is_complete();
  gpus_.update_gpus(all, loop_.now());
  recompute_eligibility();
  for (const PoolGpu& gpu : all) refresh(gpu.info.id);
  if (first) open_if_ready();
  observe_new_gpus();
}

// Observes GPUs that were not there when the others were observed.
void LeaseManager::observe_new_gpus() {
  auto gpus = gpus_.unobserved();
  if (!readiness_.is_open() || gpus.empty() || std::exchange(is_observing_new_gpus_, true)) return;
  observer_.observe(
      live_.observed_leases(false), std::move(gpus), true,
      lifetime_.guard([this, generation = readiness_.generation()](const Observation& observation) {
        if (readiness_.generation() != generation) return;
        is_observing_new_gpus_ = false;
        update_unleased(observation);
      }));
}

// Waiting claims may be able to use other GPUs than when they came.
void LeaseManager::recompute_eligibility() {
  if (!gpus_.update_inventory()) return;
  for (const auto& [ticket, id] : live_.ids_by_ticket()) {
    const Lease* lease = live_.find(ticket);
    if (lease) scheduler_.set_eligible(ticket, gpus_.eligible_gpus(lease->spec));
  }
}

void LeaseManager::refresh(const DeviceId& gpu) {
  if (const auto slot = gpus_.slot_of(gpu)) {
    apply_effects(scheduler_.set_availability(*slot, gpus_.availability(gpu), loop_.now()));
  }
}

void LeaseManager::on_processes() {
  if (!readiness_.is_open() || std::exchange(is_observing_, true)) return;
  observer_.observe(
      live_.observed_leases(false), gpus_.ids(), false,
      lifetime_.guard([this, generation = readiness_.generation()](const Observation& observation) {
        if (readiness_.generation() != generation) return;
        is_observing_ = false;
        for (const auto& [id, alive] : observation.alive_by_lease) {
          if (const Lease* lease = store_.find_latest(id);
              lease && lease->state == LeaseState::held) {
            live_.record_alive(id, observation);
          }
        }
        update_unleased(observation);
      }));
}

void LeaseManager::update_unleased(const Observation& observation) {
  for (const auto& [gpu, list] : observation.processes_by_gpu) {
    const auto newcomers = gpus_.observe(gpu, observation, loop_.now());
    if (on_unleased_process_) {
      for (const ObservedProcess& one : newcomers) on_unleased_process_(gpu, one);
    }
    refresh(gpu);
  }
}

void LeaseManager::schedule_drain_poll(TimePoint when) {
  if (drain_timer_ && drain_poll_at_ <= when) return;
  drain_poll_at_ = when;
  drain_timer_ = loop_.call_at(when, [this] { poll_drains(); });
}

void LeaseManager::poll_drains() {
  drain_timer_.reset();
  repeat_drain_poll_ = is_polling_drains_;
  if (!readiness_.is_open() || is_polling_drains_) return;
  auto draining = live_.observed_leases(true);
  if (draining.empty()) return;
  is_polling_drains_ = true;
  std::vector<DeviceId> gpus;
  for (const ObservedLease& lease : draining) {
    gpus.insert(gpus.end(), lease.gpus.begin(), lease.gpus.end());
  }
  observer_.observe(
      std::move(draining), std::move(gpus), true,
      lifetime_.guard([this, generation = readiness_.generation()](const Observation& observation) {
        if (readiness_.generation() == generation) on_drains_observed(observation);
      }));
}

void LeaseManager::on_drains_observed(const Observation& observation) {
  is_polling_drains_ = false;
  update_unleased(observation);  // so that no GPU in unleased use is granted next
  for (const auto& [id, alive] : observation.alive_by_lease) check_drain(id, observation);
  const Duration wait =
      repeat_drain_poll_ ? Duration::zero() : next_poll_delay(loop_.now() - draining_since_);
  schedule_drain_poll(loop_.now() + wait);
}

void LeaseManager::check_drain(const std::string& id, const Observation& observation) {
  const Lease* lease = store_.find_latest(id);
  if (!lease || lease->state != LeaseState::draining) return;
  live_.record_alive(id, observation);
  auto leftover = find_leftover(*lease, observation, gpus_);
  if (auto other_leftover = leftover || !drain_check_ ? std::nullopt : drain_check_(*lease)) {
    leftover = Leftover{*std::move(other_leftover)};
  }
  const std::string reason = reason_of(*lease);
  if (!leftover)
    return end(*lease, lease->end_reason.value_or(EndReason::released), "seen gone", reason);
  send_signals(*lease, observation);
  const std::string detail =
      reason.empty() ? leftover->text : reason + std::string(kLeftoverSeparator) + leftover->text;
  if (leftover->is_observed) {
    with_leftover_.insert(id);
  } else {
    with_leftover_.erase(id);
  }
  if (lease->detail == detail) return;
  Lease updated = *lease;
  updated.detail = detail;
  store_.stage_without_event(updated);
}

void LeaseManager::send_signals(const Lease& lease, const Observation& observation) {
  const auto found = signals_.extract(lease.id);
  if (found.empty()) return;
  for (const SignalPtr& signal : found.mapped()) {
    observer_.signal(
        remaining_processes(lease, observation), signal->number, signal->only_uid,
        lifetime_.guard([this, id = lease.id, signal](const std::vector<SignalFailure>& failures) {
          answer_signal(id, signal, failures, true);
        }));
  }
}

void LeaseManager::answer_signal(const std::string& id, const SignalPtr& signal,
                                 const std::vector<SignalFailure>& failures, bool checked) {
  signal->timeout_timer.reset();
  const auto waiters = std::exchange(signal->waiters, {});
  if (waiters.empty()) return;
  store_.answer_when_committed(id, [waiters, failures, checked](const Result<Lease>& lease) {
    for (const OnSignal& on_signal : waiters) {
      if (!lease) {
        on_signal(lease.error());
      } else {
        on_signal(SignalResult{*lease, failures, checked});
      }
    }
  });
}

// `checked`: the lease has no process left.
void LeaseManager::drop_signals(const std::string& id, bool checked) {
  const auto found = signals_.extract(id);
  if (found.empty()) return;
  for (const SignalPtr& signal : found.mapped()) answer_signal(id, signal, {}, checked);
}

}  // namespace gpuyard::lease
