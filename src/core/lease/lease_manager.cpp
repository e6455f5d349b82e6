#include "core/lease/lease_manager.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::lease {
namespace {

// A PID that a caller sends may be one of another PID namespace, and then name a foreign process
// here.
bool is_child(const Lease& lease, const ProcessIdentity& process) {
  return process.uid == lease.uid && std::ranges::find(lease.processes, process.parent,
                                                       &ProcessKey::pid) != lease.processes.end();
}

// Returns why a withholding cannot be overridden: the GPU is withheld for something known.
std::optional<Error> override_error(const GpuPool& gpus, const DeviceId& id) {
  const auto why = gpus.withheld_reason(id);
  if (!why || why->first == kUnknown || why->first == kInUse) return std::nullopt;
  return Error{Errc::conflict,
               fmt::format("GPU {} is withheld for a reason that cannot be overridden",
                           label_of(gpus.gpus().at(id).info)),
               why->second};
}

}  // namespace

LeaseManager::LeaseManager(Loop& loop, ProcessObserver& observer, LeaseStorage& storage,
                           LeasePolicy policy, std::string boot_id)
    : LeaseReader(parts_, drains_),
      parts_(loop, observer, storage, std::move(policy),
             {[this](const Lease& now, LeaseState before) { transitions_.notify(now, before); },
              [this](const Error& why) { recovery_.on_store_failed(why); }},
             [this](const std::string& id, const ProcessKey& process) {
               transitions_.on_gone(id, process);
             }),
      transitions_(parts_, std::move(boot_id), drains_),
      updater_(parts_, transitions_),
      drains_(parts_, transitions_, updater_),
      intake_(parts_, transitions_),
      adopter_(parts_, transitions_, updater_),
      jobs_(parts_, transitions_, updater_),
      recovery_(parts_, transitions_, updater_, drains_, jobs_) {}

void LeaseManager::on_gpus(const std::vector<PoolGpu>& all) {
  const bool first = !gpus_.is_complete();
  updater_.update_gpus(all);
  if (first) recovery_.open_if_ready();
  updater_.observe_new_gpus();
}

Subscription LeaseManager::mark_present(const std::string& id, PresenceKind kind) {
  const Lease* lease = store_.find_latest(id);
  if (!lease || lease->state == LeaseState::ended) return {};
  return parts_.clients.mark_present(id, kind);
}

Subscription LeaseManager::subscribe(const std::string& id,
                                     std::function<void(const Lease&)> on_change) {
  return parts_.clients.subscribe(id, std::move(on_change));
}

void LeaseManager::release(const Caller& caller, const std::string& id,
                           const ReleaseOptions& options, const OnLease& on_lease) {
  auto owned = find_owned(caller, id, options.fence);
  if (!owned) return refuse(loop_, owned.error(), on_lease);
  Lease lease = *std::move(owned);
  if (options.force && !caller.admin) {
    return refuse(loop_, {Errc::denied, "permission denied: only administrators may force this"},
                  on_lease);
  }
  if (lease.spec.binding == Binding::job && !caller.admin) {
    const AllocatorWords words = words_of(allocator_of(lease));
    return refuse(loop_,
                  {Errc::denied, fmt::format("the lease is bound to its {}; end the {} with `{}`",
                                             words.own_job, words.job, words.end_command)},
                  on_lease);
  }
  const bool others = lease.uid != caller.uid && lease.spec.binding != Binding::job;
  const EndReason end_reason = options.force || others ? EndReason::forced : EndReason::released;
  if (lease.state == LeaseState::waiting) {
    transitions_.end(lease, others ? EndReason::forced : EndReason::cancelled, options.reason);
  } else if (lease.state == LeaseState::held) {
    transitions_.begin_drain(lease, end_reason, options.reason);
  } else if (lease.state == LeaseState::draining && options.force) {
    return drains_.force(caller, lease, options.reason, on_lease);
  } else if (lease.state == LeaseState::draining) {
    drains_.poll();
  }
  store_.answer_when_committed(id, on_lease);
}

void LeaseManager::signal(const Caller& caller, const std::string& id, int number,
                          const OnSignal& on_signal) {
  const auto owned = find_owned(caller, id, {});
  if (!owned) return loop_.post([on_signal, why = owned.error()] { on_signal(why); });
  if (owned->state != LeaseState::draining) {
    return store_.answer_when_committed(id, [on_signal](const Result<Lease>& lease) {
      if (!lease) return on_signal(lease.error());
      on_signal(SignalResult{*lease});
    });
  }
  drains_.signal(*owned, number, caller.admin ? std::nullopt : std::optional(owned->uid),
                 on_signal);
}

void LeaseManager::renew(const Caller& caller, const std::string& id, Duration ttl,
                         std::optional<Fence> fence, const OnLease& on_lease) {
  auto owned = find_owned(caller, id, fence);
  if (!owned) return refuse(loop_, owned.error(), on_lease);
  Lease lease = *std::move(owned);
  lease.spec.ttl = ttl;
  if (lease.spec.binding != Binding::detached) {
    return refuse(
        loop_, {Errc::conflict, "the lease is bound to a process and has no time limit to renew"},
        on_lease);
  }
  if (lease.state != LeaseState::held) {
    return refuse(loop_, not_held_error(lease), on_lease);
  }
  if (auto valid = check_spec(lease.spec); !valid) return refuse(loop_, valid.error(), on_lease);
  lease.spec = store_.find_latest(id)->spec;  // repeating the first spec is no new claim
  const auto until = std::min(loop_.now() + ttl, lease.granted_at + kMaxDetachedTime);
  if (lease.expires_at && std::chrono::abs(*lease.expires_at - until) < kMinRenewal) {
    // It changes nothing, and does not count.
    return store_.answer_when_committed(id, on_lease);
  }
  // A renewal of a lease that would end soon is always accepted: no user loses a lease by renewing
  // others.
  const bool soon = lease.expires_at && *lease.expires_at - loop_.now() < ttl / 2;
  if (auto allowed = soon ? Result<void>() : parts_.quotas.check_renewal_rate(caller, loop_.now());
      !allowed) {
    return refuse(loop_, allowed.error(), on_lease);
  }
  lease.expires_at = until;
  store_.stage(lease);
  store_.answer_when_committed(id, on_lease);
}

void LeaseManager::add_member(const Caller& caller, const std::string& id, std::uint32_t pid,
                              std::optional<Fence> fence, const OnLease& on_lease) {
  auto owned = find_owned(caller, id, fence);
  if (!owned) return refuse(loop_, owned.error(), on_lease);
  parts_.holders.identify(pid, [this, caller, id, fence, on_lease](Result<ProcessIdentity> found) {
    if (!found) return refuse(loop_, found.error(), on_lease);
    auto still = find_owned(caller, id, fence);
    if (!still) return refuse(loop_, still.error(), on_lease);
    Lease lease = *std::move(still);
    if (!caller.admin && !is_child(lease, *found)) {
      return refuse(loop_,
                    {Errc::denied,
                     fmt::format("PID {} is not a child of the lease's own process, as seen by the "
                                 "daemon; in another PID namespace a process has another number",
                                 found->key.pid)},
                    on_lease);
    }
    if (lease.state != LeaseState::held) {
      return refuse(loop_, not_held_error(lease), on_lease);
    }
    if (lease.processes.size() >= limits::kMaxLeaseMembers) {
      return refuse(loop_, {Errc::busy, "too many processes belong to the lease"}, on_lease);
    }
    const auto& known = lease.processes;
    if (std::find(known.begin(), known.end(), found->key) == known.end()) {
      lease.processes.push_back(found->key);
      store_.stage(lease);
    }
    store_.answer_when_committed(id, on_lease);
  });
}

void LeaseManager::end_job(const Caller& caller, const std::string& name, const OnLease& on_lease) {
  if (auto why = readiness_.change_error()) return refuse(loop_, *why, on_lease);
  gpus_.record_report();
  for (const auto& [ticket, id] : parts_.live.ids_by_ticket()) {
    const Lease* const lease = store_.find_latest(id);
    if (lease && job_of(*lease) == name) return release(caller, std::string(id), {}, on_lease);
  }
  refuse(loop_, {Errc::not_found, fmt::format("job {} has no lease on this machine", name)},
         on_lease);
}

void LeaseManager::cordon(const Caller& caller, const std::vector<DeviceId>& gpus,
                          const std::string& reason, const OnDone& on_done) {
  if (auto why = readiness_.change_error()) return loop_.post([on_done, why] { on_done(*why); });
  for (const DeviceId& gpu : gpus) {
    const Cordon cordon{gpu, caller.name(), reason, loop_.wall()};
    gpus_.cordon(cordon);
    store_.stage_cordon(cordon);
    transitions_.refresh(gpu);
  }
  store_.when_committed(on_done);
}

void LeaseManager::uncordon(const Caller& caller, const std::vector<DeviceId>& gpus,
                            const OnDone& on_done) {
  if (auto why = readiness_.change_error()) return loop_.post([on_done, why] { on_done(*why); });
  for (const DeviceId& gpu : gpus) {
    if (!gpus_.cordon_of(gpu)) continue;
    const auto lifted = gpus_.uncordon(gpu, caller.name(), loop_.wall());
    store_.stage_uncordon(gpu);
    if (lifted) store_.stage_cordon(*lifted);
    transitions_.refresh(gpu);
  }
  store_.when_committed(on_done);
}

void LeaseManager::override_withholding(const Caller& caller, const std::vector<DeviceId>& gpus,
                                        const std::string& reason, const OnDone& on_done) {
  if (auto why = readiness_.change_error()) return loop_.post([on_done, why] { on_done(*why); });
  for (const DeviceId& gpu : gpus) {
    if (auto why = override_error(gpus_, gpu)) return loop_.post([on_done, why] { on_done(*why); });
  }
  for (const DeviceId& gpu : gpus) {
    const auto withheld = gpus_.withheld_reason(gpu);
    if (!withheld) continue;
    log::warning("the withholding of GPU {} ({}) is overridden by {}: {}", gpu, withheld->second,
                 caller.name(), reason);
    gpus_.override_withholding(gpu, withheld->first);
    transitions_.refresh(gpu);
  }
  store_.when_committed(on_done);
}

// Returns the lease as it is decided, for its owner or an administrator; an error while no change
// is possible.
Result<Lease> LeaseManager::find_owned(const Caller& caller, const std::string& id,
                                       std::optional<Fence> fence) const {
  if (auto why = readiness_.change_error()) return *std::move(why);
  const Lease* lease = store_.find_latest(id);
  if (!lease) return unknown_lease_error(id);
  // A caller without a user has the uid of pods, and owns none.
  const bool is_owner = lease->uid == caller.uid && lease->pod.empty();
  if (!is_owner && !caller.admin) {
    return Error{
        Errc::denied,
        fmt::format("permission denied: lease {} belongs to {}", lease->id,
                    lease->pod.empty() ? fmt::format("UID {}", lease->uid) : "pod " + lease->pod),
        "only that user and administrators may change it"};
  }
  if (fence && *fence != lease->fence) {
    return Error{Errc::conflict, fmt::format("fence {} does not match the fence of this lease, {}",
                                             *fence, lease->fence)};
  }
  return *lease;
}

}  // namespace gpuyard::lease
