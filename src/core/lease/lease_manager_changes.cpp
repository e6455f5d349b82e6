// Requests about existing leases: release, renewal, adding a process; and about GPUs that no lease
// has.
#include <algorithm>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/identifiers.h"
#include "base/log.h"
#include "base/proc_stat.h"
#include "core/lease/lease_manager.h"

namespace gpuyard::lease {
namespace {

// A PID that a caller sends may be one of another PID namespace, and then name a foreign process
// here.
bool is_child(const Lease& lease, const ProcessIdentity& process) {
  return process.uid == lease.uid && std::ranges::find(lease.processes, process.parent,
                                                       &ProcessKey::pid) != lease.processes.end();
}

// "PID 13 (python) of UID 2000 uses GPU-1", for each; "" for none.
std::string names_of(const std::vector<std::pair<DeviceId, ObservedProcess>>& users) {
  constexpr std::size_t kMaxNames = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(users.size(), kMaxNames); ++i) {
    const auto& [gpu, one] = users[i];
    text += fmt::format("{}PID {} ({}) of UID {} uses {}", i == 0 ? "" : ", ", one.pid, one.command,
                        one.uid, gpu);
  }
  if (users.size() > kMaxNames) text += fmt::format(" and {} more", users.size() - kMaxNames);
  return text;
}

}  // namespace

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
    transitions_.end(lease, others ? EndReason::forced : EndReason::cancelled, caller.name(),
                     options.reason);
  } else if (lease.state == LeaseState::held) {
    transitions_.begin_drain(lease, end_reason, caller.name(), options.reason);
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
    return store_.answer_when_committed(id, on_lease);  // it changes nothing, and does not count
  }
  // A renewal of a lease that would end soon is always accepted: no user loses a lease by renewing
  // others.
  const bool soon = lease.expires_at && *lease.expires_at - loop_.now() < ttl / 2;
  if (auto allowed = soon ? Result<void>() : quotas_.check_renewal_rate(caller, loop_.now());
      !allowed) {
    return refuse(loop_, allowed.error(), on_lease);
  }
  lease.expires_at = until;
  store_.stage(lease, "renewed", caller.name());
  store_.answer_when_committed(id, on_lease);
}

void LeaseManager::add_member(const Caller& caller, const std::string& id, std::uint32_t pid,
                              std::optional<Fence> fence, const OnLease& on_lease) {
  auto owned = find_owned(caller, id, fence);
  if (!owned) return refuse(loop_, owned.error(), on_lease);
  holders_.identify(pid, [this, caller, id, fence, on_lease](Result<ProcessIdentity> found) {
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
      store_.stage(lease, fmt::format("counts PID {}", found->key.pid), caller.name());
    }
    store_.answer_when_committed(id, on_lease);
  });
}

void LeaseManager::adopt(const Caller& caller, std::uint32_t pid, const std::string& note,
                         const OnLease& on_lease) {
  if (auto why = readiness_.claim_error()) return refuse(loop_, *why, on_lease);
  if (const auto why = readiness_.observe_only_error()) return refuse(loop_, *why, on_lease);
  if (auto allowed = quotas_.check_claim_rate(caller, loop_.now()); !allowed) {
    return refuse(loop_, allowed.error(), on_lease);
  }
  auto slot = quotas_.acquire_adoption_slot(caller);
  if (!slot) return refuse(loop_, slot.error(), on_lease);
  const OnLease reply = [slot = *std::move(slot), on_lease](const Result<Lease>& lease) {
    slot->reset();
    on_lease(lease);
  };
  holders_.identify(pid, [this, caller, note, reply](Result<ProcessIdentity> found) {
    if (!found) return refuse(loop_, found.error(), reply);
    if (found->uid != caller.uid && !caller.admin) {
      return refuse(loop_,
                    {Errc::denied, fmt::format("permission denied: process {} belongs to UID {}",
                                               found->key.pid, found->uid)},
                    reply);
    }
    pending_adoptions_.push_back({caller, *found, note, reply, new_id()});
    observe_adoptions();
  });
}

// One observation at a time serves all adoptions, so that a flood of them delays no drain.
void LeaseManager::observe_adoptions() {
  if (pending_adoptions_.empty() || std::exchange(is_observing_adoptions_, true)) return;
  auto observed = live_.observed_leases(false);
  // An ObservedLease without GPUs changes no attribution: it only finds the living descendants.
  for (const PendingAdoption& adoption : pending_adoptions_) {
    observed.push_back({adoption.lease_id, adoption.process.uid, {}, {adoption.process.key}});
  }
  observer_.observe(std::move(observed), gpus_.ids(), true,
                    lifetime_.guard([this, adoptions = std::exchange(pending_adoptions_, {})](
                                        const Observation& observation) {
                      is_observing_adoptions_ = false;
                      for (const PendingAdoption& adoption : adoptions)
                        complete_adoption(adoption, observation);
                      observe_adoptions();
                    }));
}

// Descendants of another user are found, and not adopted: the caller may not adopt them by
// themselves either. This holds for administrators, too, because one lease has one user.
LeaseManager::ProcessTree LeaseManager::tree_of(const PendingAdoption& adoption,
                                                const Observation& observation) const {
  const ProcessKey& root = adoption.process.key;
  std::set<ProcessKey> members = {root};
  if (const auto alive = observation.alive_by_lease.find(adoption.lease_id);
      alive != observation.alive_by_lease.end()) {
    members.insert(alive->second.begin(), alive->second.end());
  }
  ProcessTree tree;
  for (const auto& [gpu, list] : observation.processes_by_gpu) {
    const auto slot = gpus_.slots().find(gpu);
    if (!list || slot == gpus_.slots().end() || scheduler_.holder(slot->second)) continue;
    for (const ObservedProcess& one : *list) {
      if (one.attribution != ObservedProcess::Attribution::outsider) continue;
      const bool is_root = one.pid == root.pid && (!one.started || *one.started == root.started);
      const bool in_tree = one.started && members.contains({one.pid, *one.started});
      if (!is_root && !in_tree) continue;
      if (!is_root && one.uid != adoption.process.uid) {
        tree.foreign.emplace_back(gpu, one);
        continue;
      }
      tree.own[gpu].push_back(is_root ? root : ProcessKey{one.pid, *one.started});
      tree.gpus.set(slot->second);
    }
  }
  return tree;
}

// A waiting claim has a better right to a GPU than a process that began to use it later without a
// lease.
std::optional<Error> LeaseManager::check_adoptable(const PendingAdoption& adoption,
                                                   const ProcessTree& tree) const {
  const GpuSet& used = tree.gpus;
  for (const DeviceId& gpu : gpus_.ids_of(used)) {
    if (gpus_.is_fit(gpu) && !gpus_.cordon_of(gpu)) continue;
    return Error{Errc::conflict, fmt::format("{} is withheld from leasing: {}", gpu,
                                             gpus_.withheld_reason(gpu)->second)};
  }
  const ProcessIdentity& process = adoption.process;
  if (adoption.caller.admin) return std::nullopt;
  if (quotas_.exceeds_gpu_limit(scheduler_, process.uid, used.count())) {
    return Error{Errc::conflict, quotas_.gpu_limit_text()};
  }
  for (const auto& [ticket, claim] : scheduler_.waiting_claims()) {
    if (claim.request.owner == quota_owner(process.uid) || (claim.request.eligible & used).none())
      continue;
    const Lease* lease = live_.find(ticket);
    const auto came_later = [&](const DeviceId& gpu) {
      return std::ranges::all_of(tree.own.at(gpu), [&](const ProcessKey& one) {
        return lease->requested_at < gpus_.unleased_since(gpu, one).value_or(loop_.now());
      });
    };
    const auto wanted = gpus_.ids_of(claim.request.eligible & used);
    if (lease == nullptr || std::ranges::none_of(wanted, came_later)) continue;
    return Error{
        Errc::conflict,
        fmt::format("UID {} was waiting for these GPUs when PID {} started to use them, so it gets "
                    "no lease; end it and wait in the queue, or ask an administrator to adopt it",
                    lease->uid, process.key.pid)};
  }
  return std::nullopt;
}

void LeaseManager::complete_adoption(const PendingAdoption& adoption,
                                     const Observation& observation) {
  const auto& [caller, process, note, on_lease, id] = adoption;
  if (auto why = readiness_.claim_error()) return refuse(loop_, *why, on_lease);
  const ProcessTree tree = tree_of(adoption, observation);
  if (auto why = check_adoptable(adoption, tree)) return refuse(loop_, *why, on_lease);
  const auto ticket = scheduler_.adopt(quota_owner(process.uid), tree.gpus, loop_.now());
  const std::string foreign = names_of(tree.foreign);
  if (!ticket) {
    return refuse(
        loop_,
        {Errc::conflict,
         fmt::format("neither PID {} nor its descendants of the same user use an unleased GPU{}{}",
                     process.key.pid, foreign.empty() ? "" : "; ", foreign)},
        on_lease);
  }
  Lease lease = transitions_.make_lease(id, process.uid);
  lease.spec.gpus = static_cast<unsigned>(tree.gpus.count());
  lease.spec.note = note.empty() ? process.command : note;
  lease.ticket = *ticket;
  lease.processes.push_back(process.key);
  std::string member_text;
  for (const auto& [gpu, processes] : tree.own) {
    for (const ProcessKey& one : processes) {
      const bool known = std::ranges::find(lease.processes, one) != lease.processes.end();
      if (known || lease.processes.size() >= limits::kMaxLeaseMembers) continue;
      lease.processes.push_back(one);
      member_text += fmt::format("{}{}", member_text.empty() ? " with " : ", ", one.pid);
    }
  }
  if (!foreign.empty()) lease.detail = "not adopted: " + foreign;
  transitions_.grant_at_once(lease,
                             fmt::format("adopts PID {}{}{}{}", process.key.pid, member_text,
                                         foreign.empty() ? "" : "; not adopted: ", foreign),
                             caller.name(), process);
  // The lease belongs to its process, even if no client acknowledges the grant.
  store_.when_committed(
      [this, its = lease.id](const Result<void>&) { clients_.acknowledge_grant(its); });
  updater_.update_unleased(observation);
  store_.answer_when_committed(lease.id, on_lease);
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
    store_.stage_uncordon(gpu, caller.name());
    if (lifted) store_.stage_cordon_without_event(*lifted);
    transitions_.refresh(gpu);
  }
  store_.when_committed(on_done);
}

void LeaseManager::override_withholding(const Caller& caller, const std::vector<DeviceId>& gpus,
                                        const std::string& reason, const OnDone& on_done) {
  if (auto why = readiness_.change_error()) return loop_.post([on_done, why] { on_done(*why); });
  for (const DeviceId& gpu : gpus) {
    if (auto why = gpus_.override_error(gpu)) return loop_.post([on_done, why] { on_done(*why); });
  }
  for (const DeviceId& gpu : gpus) {
    const auto withheld = gpus_.withheld_reason(gpu);
    if (!withheld) continue;
    gpus_.override_withholding(gpu, withheld->first);
    store_.stage_gpu_event(
        gpu, fmt::format("leased by override ({}): {}", withheld->second, reason), caller.name());
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
