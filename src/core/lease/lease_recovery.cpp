#include "core/lease/lease_recovery.h"

#include <algorithm>
#include <utility>

namespace gpuyard::lease {

void LeaseRecovery::start() {
  load();
}

void LeaseRecovery::stop() {
  readiness_.stop();
  scheduler_.close();
  transitions_.stop();
  drains_.stop();
  load_timer_.reset();
  progress_.timer.reset();
}

void LeaseRecovery::load() {
  readiness_.begin_loading();
  store_.load([this](Result<SavedLeases> saved) { on_loaded(std::move(saved)); });
}

void LeaseRecovery::on_store_failed(const Error& why) {
  readiness_.fail(why);
  scheduler_.close();
  if (readiness_.phase() == Phase::idle) return;
  load_timer_ = loop_.call_after(kLoadRetryDelay, [this] { load(); });
}

void LeaseRecovery::on_loaded(Result<SavedLeases> saved) {
  if (readiness_.phase() == Phase::idle) return;
  if (!saved) return on_store_failed(saved.error());
  readiness_.begin_recovering();
  const Fairness fairness = scheduler_.fairness();
  scheduler_ = Scheduler(fairness);
  scheduler_.close();
  gpus_.reassign_slots();
  scheduler_.restore_counters(saved->last_ticket, saved->last_fence);
  live_.clear();
  quotas_.clear_waiting();
  holders_.clear();
  updater_.clear();
  progress_ = {};
  progress_.pending_rebinds = 1;  // all leases are restored before anything follows
  drains_.clear();
  clients_.clear_grants();
  for (const Cordon& cordon : saved->cordons) gpus_.cordon(cordon);
  store_.accept_loaded(saved->leases);
  store_.prune_ended();
  for (const Lease& lease : saved->leases) {
    if (lease.spec.binding == Binding::job) jobs_.observe_only(allocator_of(lease));
    if (lease.state != LeaseState::ended) {
      restore(lease);
    } else if (lease.overdue && lease.ended_wall) {
      const Duration ago = loop_.wall() - *lease.ended_wall;
      scheduler_.restore_penalty(quotas_.quota_owner(lease.uid),
                                 loop_.now() + Scheduler::kOverduePenalty - ago);
    }
  }
  readiness_.finish_loading();
  --progress_.pending_rebinds;
  if (gpus_.is_complete()) updater_.recompute_eligibility();
  open_if_ready();
}

void LeaseRecovery::restore(const Lease& saved) {
  if (!transitions_.restore(saved)) return;
  Lease lease = saved;
  if (lease.expires_at && !readiness_.has_loaded() && lease.state == LeaseState::held) {
    lease.expires_at = std::max(*lease.expires_at, loop_.now() + kMinTimeAfterRestart);
    store_.stage(lease);
  }
  if (lease.state == LeaseState::draining) return;
  if (lease.spec.binding == Binding::detached || lease.spec.binding == Binding::job) return;
  for (const ProcessKey& process : lease.processes) rebind(lease.id, process);
}

// Checks whether a process that is bound to a lease is still the same one.
void LeaseRecovery::rebind(const std::string& id, const ProcessKey& process) {
  ++progress_.pending_rebinds;
  holders_.identify(process.pid, [this, id, process, generation = readiness_.generation()](
                                     const Result<ProcessIdentity>& found) {
    if (generation != readiness_.generation()) return;
    if (!found && found.error().code != Errc::not_found) {  // this shows nothing about the process
      progress_.failed_rebinds.emplace_back(id, process);
      if (progress_.failed_rebinds.size() == 1) {
        progress_.timer = loop_.call_after(kRecoveryRetryDelay, [this] { retry_rebind(); });
      }
      return;
    }
    --progress_.pending_rebinds;
    if (found && found->key == process) {
      holders_.bind(id, *found);
    } else {
      transitions_.on_gone(id, process);
    }
    open_if_ready();
  });
}

void LeaseRecovery::retry_rebind() {
  for (const auto& [id, process] : std::exchange(progress_.failed_rebinds, {})) {
    --progress_.pending_rebinds;
    rebind(id, process);
  }
}

// Nothing is granted before the users of the GPUs are known.
void LeaseRecovery::observe_restored() {
  if (std::exchange(progress_.is_observing, true)) return;
  observer_.observe(
      live_.observed_leases(false), gpus_.ids(), true,
      lifetime_.guard([this, generation = readiness_.generation()](const Observation& observation) {
        if (readiness_.generation() == generation) on_restored_observed(observation);
      }));
}

void LeaseRecovery::on_restored_observed(const Observation& observation) {
  const bool blind = !observation.processes_by_gpu.empty() && !observation.has_any_list();
  progress_.is_observing = false;
  if (blind) {
    progress_.timer = loop_.call_after(kRecoveryRetryDelay, [this] { observe_restored(); });
    return;
  }
  progress_.is_observed = true;
  updater_.update_unleased(observation);
  open_if_ready();
}

void LeaseRecovery::open_if_ready() {
  if (readiness_.phase() != Phase::recovering || progress_.pending_rebinds > 0 ||
      !gpus_.is_complete())
    return;
  if (!progress_.is_observed) return observe_restored();
  readiness_.open(loop_.now());
  if (gpus_.allocator()) jobs_.cancel_waiting();
  transitions_.apply_effects(scheduler_.open(loop_.now()));
  updater_.observe_new_gpus();
  drains_.start();
}

}  // namespace gpuyard::lease
