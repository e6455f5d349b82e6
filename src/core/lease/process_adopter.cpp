#include "core/lease/process_adopter.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/identifiers.h"

namespace gpuyard::lease {
namespace {

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

void ProcessAdopter::adopt(const Caller& caller, std::uint32_t pid, const std::string& note,
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
    pending_.push_back({caller, *found, note, reply, new_id()});
    observe();
  });
}

// One observation at a time serves all adoptions, so that a flood of them delays no drain.
void ProcessAdopter::observe() {
  if (pending_.empty() || std::exchange(is_observing_, true)) return;
  auto observed = live_.observed_leases(false);
  // An ObservedLease without GPUs changes no attribution: it only finds the living descendants.
  for (const PendingAdoption& adoption : pending_) {
    observed.push_back({adoption.lease_id, adoption.process.uid, {}, {adoption.process.key}});
  }
  observer_.observe(std::move(observed), gpus_.ids(), true,
                    lifetime_.guard([this, adoptions = std::exchange(pending_, {})](
                                        const Observation& observation) {
                      is_observing_ = false;
                      for (const PendingAdoption& adoption : adoptions)
                        complete(adoption, observation);
                      observe();
                    }));
}

// Descendants of another user are found, and not adopted: the caller may not adopt them by
// themselves either. This holds for administrators, too, because one lease has one user.
ProcessAdopter::ProcessTree ProcessAdopter::tree_of(const PendingAdoption& adoption,
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
    if (!list || slot == gpus_.slots().end() || scheduler_.allocations().holder(slot->second))
      continue;
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
std::optional<Error> ProcessAdopter::check_adoptable(const PendingAdoption& adoption,
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
    if (claim.request.owner == quotas_.quota_owner(process.uid) ||
        (claim.request.eligible & used).none())
      continue;
    const Lease* lease = live_.find(ticket);
    const auto came_later = [&](const DeviceId& gpu) {
      return std::ranges::all_of(tree.own.at(gpu), [&](const ProcessKey& one) {
        return lease->requested_at < gpus_.unleased().since(gpu, one).value_or(loop_.now());
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

void ProcessAdopter::complete(const PendingAdoption& adoption, const Observation& observation) {
  const auto& [caller, process, note, on_lease, id] = adoption;
  if (auto why = readiness_.claim_error()) return refuse(loop_, *why, on_lease);
  const ProcessTree tree = tree_of(adoption, observation);
  if (auto why = check_adoptable(adoption, tree)) return refuse(loop_, *why, on_lease);
  const auto ticket = scheduler_.adopt(quotas_.quota_owner(process.uid), tree.gpus, loop_.now());
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
  for (const auto& [gpu, processes] : tree.own) {
    for (const ProcessKey& one : processes) {
      const bool known = std::ranges::find(lease.processes, one) != lease.processes.end();
      if (known || lease.processes.size() >= limits::kMaxLeaseMembers) continue;
      lease.processes.push_back(one);
    }
  }
  if (!foreign.empty()) lease.detail = "not adopted: " + foreign;
  transitions_.grant_at_once(lease, process);
  // The lease belongs to its process, even if no client acknowledges the grant.
  store_.when_committed(
      [this, its = lease.id](const Result<void>&) { clients_.acknowledge_grant(its); });
  updater_.update_unleased(observation);
  store_.answer_when_committed(lease.id, on_lease);
}

}  // namespace gpuyard::lease
