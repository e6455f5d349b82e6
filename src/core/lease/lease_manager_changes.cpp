// Requests about existing leases: release, renewal, adding a process; and about GPUs that no lease
// has.
#include <algorithm>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/lease/lease_manager.h"

namespace gpuyard::lease {
namespace {

// A PID that a caller tells may be one of another PID namespace, and then name a foreign process
// here.
bool is_child(const Lease& lease, const Identity& who) {
  return who.uid == lease.uid &&
         std::ranges::find(lease.processes, who.parent, &Process::pid) != lease.processes.end();
}

}  // namespace

void Leases::release(const Caller& caller, const std::string& id, const Release& how,
                     const Answer& answer) {
  auto owned = own(caller, id, how.fence);
  if (!owned) return refuse(owned.error(), answer);
  Lease lease = *std::move(owned);
  if (how.force && !caller.admin) {
    return refuse({Errc::denied, "permission denied: only administrators may force this"}, answer);
  }
  if (lease.wish.binding == Binding::job && !caller.admin) {
    return refuse({Errc::denied, "the lease is bound to its Slurm job; end the job with `scancel`"},
                  answer);
  }
  const bool others = lease.uid != caller.uid && lease.wish.binding != Binding::job;
  const Ending ending = how.force || others ? Ending::forced : Ending::released;
  if (lease.state == State::waiting) {
    end(lease, others ? Ending::forced : Ending::cancelled, caller.name(), how.reason);
  } else if (lease.state == State::held) {
    let_go(lease, ending, caller.name(), how.reason);
  } else if (lease.state == State::draining && how.force) {
    return force(caller, lease, how.reason, answer);
  } else if (lease.state == State::draining) {
    drain();
  }
  answer_when_kept(id, answer);
}

void Leases::signal(const Caller& caller, const std::string& id, int number,
                    const SignalAnswer& answer) {
  const auto owned = own(caller, id, {});
  if (!owned) return loop_.post([answer, why = owned.error()] { answer(why); });
  if (owned->state != State::draining) {
    return answer_when_kept(id, [answer](const Result<Lease>& lease) {
      if (!lease) return answer(lease.error());
      answer(Signalled{*lease});
    });
  }
  const auto only_of = caller.admin ? std::nullopt : std::optional(owned->uid);
  auto& signals = signals_[id];
  auto same = std::ranges::find_if(signals, [&](const SignalPtr& one) {
    return one->number == number && one->only_of == only_of;
  });
  if (same == signals.end()) {
    same = signals.insert(signals.end(), std::make_shared<Signal>(Signal{number, only_of}));
  }
  const SignalPtr& signal = *same;
  signal->waiting.push_back(answer);
  if (signal->waiting.size() == 1) {
    signal->deadline = loop_.call_after(kSignalPatience, [this, id, weak = std::weak_ptr(signal)] {
      if (const auto late = weak.lock()) answer_signal(id, late, {}, false);
    });
  }
  drain_again_ = true;
  drain();
}

// A process that still uses the GPUs is outside any lease from now on. It has to be known before
// the GPUs are granted again.
void Leases::force(const Caller& caller, const Lease& lease, const std::string& reason,
                   const Answer& answer) {
  log::warning("lease {} ended by {} while still draining ({}): {}", lease.id, caller.name(),
               lease.why, reason);
  observer_.look({}, lease.gpus, true,
                 here_.guard([this, caller, id = lease.id, reason, answer](const Sight& sight) {
                   if (auto why = closed_to_changes()) return refuse(*why, answer);
                   look_outside(sight);
                   const Lease* still = journal_.find(id);
                   if (still && still->state == State::draining) {
                     end(*still, Ending::forced, caller.name(), reason);
                   }
                   answer_when_kept(id, answer);
                 }));
}

void Leases::renew(const Caller& caller, const std::string& id, Duration ttl,
                   std::optional<Fence> fence, const Answer& answer) {
  auto owned = own(caller, id, fence);
  if (!owned) return refuse(owned.error(), answer);
  Lease lease = *std::move(owned);
  lease.wish.ttl = ttl;
  if (lease.wish.binding != Binding::detached) {
    return refuse(
        {Errc::conflict, "the lease is bound to a process and has no time limit to renew"}, answer);
  }
  if (lease.state != State::held) {
    return refuse(not_held(lease), answer);
  }
  if (auto valid = check(lease.wish); !valid) return refuse(valid.error(), answer);
  lease.wish = journal_.find(id)->wish;  // asking again with the first wish is no new claim
  const auto until = std::min(loop_.now() + ttl, lease.granted + kLongestDetached);
  if (lease.until && std::chrono::abs(*lease.until - until) < kLeastRenewal) {
    return answer_when_kept(id, answer);  // it changes nothing, and does not count
  }
  // A renewal of a lease that would end soon is always taken: nobody loses a lease by renewing
  // others.
  const bool soon = lease.until && *lease.until - loop_.now() < ttl / 2;
  if (auto slow = soon ? Result<void>() : limits_.count_renewal(caller, loop_.now()); !slow) {
    return refuse(slow.error(), answer);
  }
  lease.until = until;
  journal_.put(lease, "renewed", caller.name());
  answer_when_kept(id, answer);
}

void Leases::add_member(const Caller& caller, const std::string& id, std::uint32_t pid,
                        std::optional<Fence> fence, const Answer& answer) {
  auto owned = own(caller, id, fence);
  if (!owned) return refuse(owned.error(), answer);
  holders_.identify(pid, [this, caller, id, fence, answer](Result<Identity> found) {
    if (!found) return refuse(found.error(), answer);
    auto still = own(caller, id, fence);
    if (!still) return refuse(still.error(), answer);
    Lease lease = *std::move(still);
    if (!caller.admin && !is_child(lease, *found)) {
      return refuse({Errc::denied,
                     fmt::format("PID {} is not a child of the lease's own process, as seen by the "
                                 "daemon; in another PID namespace a process has another number",
                                 found->process.pid)},
                    answer);
    }
    if (lease.state != State::held) {
      return refuse(not_held(lease), answer);
    }
    if (lease.processes.size() >= shares::kMembers) {
      return refuse({Errc::busy, "too many processes belong to the lease"}, answer);
    }
    const auto& known = lease.processes;
    if (std::find(known.begin(), known.end(), found->process) == known.end()) {
      lease.processes.push_back(found->process);
      journal_.put(lease, fmt::format("counts PID {}", found->process.pid), caller.name());
    }
    answer_when_kept(id, answer);
  });
}

void Leases::adopt(const Caller& caller, std::uint32_t pid, const std::string& note,
                   const Answer& answer) {
  if (auto why = closed_to_claims()) return refuse(*why, answer);
  if (const auto why = observed()) return refuse(*why, answer);
  if (auto slow = limits_.count_claim(caller, loop_.now()); !slow) {
    return refuse(slow.error(), answer);
  }
  auto place = limits_.begin_adopting(caller);
  if (!place) return refuse(place.error(), answer);
  const Answer counted = [place = *std::move(place), answer](const Result<Lease>& lease) {
    place->reset();
    answer(lease);
  };
  holders_.identify(pid, [this, caller, note, counted](Result<Identity> found) {
    if (!found) return refuse(found.error(), counted);
    if (found->uid != caller.uid && !caller.admin) {
      return refuse({Errc::denied, fmt::format("permission denied: process {} belongs to UID {}",
                                               found->process.pid, found->uid)},
                    counted);
    }
    adopters_.push_back({caller, *found, note, counted, new_id()});
    look_for_adopters();
  });
}

// One look at a time serves all adoptions, so that a flood of them delays nobody's drain.
void Leases::look_for_adopters() {
  if (adopters_.empty() || std::exchange(looking_for_adopters_, true)) return;
  auto looked_for = suspects(false);
  // A suspect without GPUs changes no verdict: it only finds the living descendants.
  for (const Adopter& adopter : adopters_) {
    looked_for.push_back({adopter.lease, adopter.who.uid, {}, {adopter.who.process}});
  }
  observer_.look(std::move(looked_for), gpus_.ids(), true,
                 here_.guard([this, adopters = std::exchange(adopters_, {})](const Sight& sight) {
                   looking_for_adopters_ = false;
                   for (const Adopter& adopter : adopters) adopt_on(adopter, sight);
                   look_for_adopters();
                 }));
}

// Descendants of another user are found, and not taken: the caller may not adopt them by themselves
// either. This holds for administrators, too, because one lease has one user.
Leases::ProcessTree Leases::tree_of(const Adopter& adopter, const Sight& sight) const {
  const Process& root = adopter.who.process;
  std::set<Process> members = {root};
  if (const auto alive = sight.alive.find(adopter.lease); alive != sight.alive.end()) {
    members.insert(alive->second.begin(), alive->second.end());
  }
  ProcessTree tree;
  for (const auto& [gpu, list] : sight.on_gpus) {
    const auto slot = gpus_.slots().find(gpu);
    if (!list || slot == gpus_.slots().end() || core_.holder(slot->second)) continue;
    for (const Seen& one : *list) {
      if (one.verdict != Seen::Verdict::outsider) continue;
      const bool is_root = one.pid == root.pid && (!one.started || *one.started == root.started);
      const bool in_tree = one.started && members.contains({one.pid, *one.started});
      if (!is_root && !in_tree) continue;
      if (!is_root && one.uid != adopter.who.uid) {
        tree.foreign.emplace_back(gpu, one);
        continue;
      }
      tree.own[gpu].push_back(is_root ? root : Process{one.pid, *one.started});
      tree.gpus.set(slot->second);
    }
  }
  return tree;
}

namespace {

// "PID 13 (python) of UID 2000 uses GPU-1", for each; "" for none.
std::string names_of(const std::vector<std::pair<DeviceId, Seen>>& users) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(users.size(), kMost); ++i) {
    const auto& [gpu, one] = users[i];
    text += fmt::format("{}PID {} ({}) of UID {} uses {}", i == 0 ? "" : ", ", one.pid, one.command,
                        one.uid, gpu);
  }
  if (users.size() > kMost) text += fmt::format(" and {} more", users.size() - kMost);
  return text;
}

}  // namespace

// A waiting claim has a better right to a GPU than a process that began to use it later without a
// lease.
std::optional<Error> Leases::bar_to_adopting(const Adopter& adopter,
                                             const ProcessTree& tree) const {
  const GpuSet& used = tree.gpus;
  for (const DeviceId& gpu : gpus_.names(used)) {
    if (gpus_.fit(gpu) && !gpus_.cordon_of(gpu)) continue;
    return Error{Errc::conflict,
                 fmt::format("{} is withheld from leasing: {}", gpu, gpus_.withheld(gpu)->second)};
  }
  const Identity& who = adopter.who;
  if (adopter.caller.admin) return std::nullopt;
  if (exceeds_quota(who.uid, used.count())) {
    return Error{Errc::conflict, limit_text()};
  }
  for (const auto& [ticket, claim] : core_.waiting()) {
    if (claim.terms.owner == person(who.uid) || (claim.terms.eligible & used).none()) continue;
    const auto id = by_ticket_.find(ticket);
    const Lease* lease = id == by_ticket_.end() ? nullptr : journal_.find(id->second);
    const auto came_later = [&](const DeviceId& gpu) {
      return std::ranges::all_of(tree.own.at(gpu), [&](const Process& one) {
        return lease->asked < gpus_.outside_since(gpu, one).value_or(loop_.now());
      });
    };
    const auto wanted = gpus_.names(claim.terms.eligible & used);
    if (lease == nullptr || std::ranges::none_of(wanted, came_later)) continue;
    return Error{
        Errc::conflict,
        fmt::format("UID {} was waiting for these GPUs when PID {} started to use them, so it gets "
                    "no lease; end it and wait in the queue, or ask an administrator to adopt it",
                    lease->uid, who.process.pid)};
  }
  return std::nullopt;
}

void Leases::adopt_on(const Adopter& adopter, const Sight& sight) {
  const auto& [caller, who, note, answer, id] = adopter;
  if (auto why = closed_to_claims()) return refuse(*why, answer);
  const ProcessTree tree = tree_of(adopter, sight);
  if (auto why = bar_to_adopting(adopter, tree)) return refuse(*why, answer);
  const auto ticket = core_.adopt(person(who.uid), tree.gpus, loop_.now());
  const std::string foreign = names_of(tree.foreign);
  if (!ticket) {
    return refuse(
        {Errc::conflict,
         fmt::format("neither PID {} nor its descendants of the same user use an unleased GPU{}{}",
                     who.process.pid, foreign.empty() ? "" : "; ", foreign)},
        answer);
  }
  Lease lease;
  lease.id = id;
  lease.uid = who.uid;
  lease.wish.gpus = static_cast<unsigned>(tree.gpus.count());
  lease.wish.note = note.empty() ? who.command : note;
  lease.ticket = *ticket;
  lease.boot_id = boot_id_;
  lease.asked = loop_.now();
  lease.asked_wall = loop_.wall();
  lease.processes.push_back(who.process);
  std::string with;
  for (const auto& [gpu, processes] : tree.own) {
    for (const Process& one : processes) {
      const bool known = std::ranges::find(lease.processes, one) != lease.processes.end();
      if (known || lease.processes.size() >= shares::kMembers) continue;
      lease.processes.push_back(one);
      with += fmt::format("{}{}", with.empty() ? " with " : ", ", one.pid);
    }
  }
  if (!foreign.empty()) lease.why = "not adopted: " + foreign;
  by_ticket_[lease.ticket] = lease.id;
  limits_.waits(lease.uid);
  journal_.put(lease,
               fmt::format("adopts PID {}{}{}{}", who.process.pid, with,
                           foreign.empty() ? "" : "; not adopted: ", foreign),
               caller.name());
  holders_.bind(lease.id, who);
  on_granted(*core_.find(*ticket));
  // The lease belongs to its process, even if no client hears of the grant.
  journal_.after([this, its = lease.id](const Result<void>&) { clients_.heard(its); });
  look_outside(sight);
  answer_when_kept(lease.id, answer);
}

std::string Leases::limit_text() const {
  const unsigned most = policy_.fairness.most_gpus_of_owner;
  return fmt::format("the limit is {} GPU{} per user", most, most == 1 ? "" : "s");
}

bool Leases::exceeds_quota(std::uint32_t uid, std::size_t more) const {
  const unsigned most = policy_.fairness.most_gpus_of_owner;
  if (most == 0) return false;
  std::size_t held = more;
  for (const auto& [ticket, claim] : core_.live()) {
    if (claim.terms.owner == person(uid)) held += claim.gpus.count();
  }
  return held > most;
}

void Leases::cordon(const Caller& caller, const std::vector<DeviceId>& gpus,
                    const std::string& reason, const Done& done) {
  if (auto why = closed_to_changes()) return loop_.post([done, why] { done(*why); });
  for (const DeviceId& gpu : gpus) {
    const Cordon cordon{gpu, caller.name(), reason, loop_.wall()};
    gpus_.cordon(cordon);
    journal_.cordon(cordon);
    refresh(gpu);
  }
  journal_.after(done);
}

void Leases::uncordon(const Caller& caller, const std::vector<DeviceId>& gpus, const Done& done) {
  if (auto why = closed_to_changes()) return loop_.post([done, why] { done(*why); });
  for (const DeviceId& gpu : gpus) {
    if (!gpus_.cordon_of(gpu)) continue;
    const auto lifted = gpus_.uncordon(gpu, caller.name(), loop_.wall());
    journal_.uncordon(gpu, caller.name());
    if (lifted) journal_.cordon_silently(*lifted);
    refresh(gpu);
  }
  journal_.after(done);
}

void Leases::override_withholding(const Caller& caller, const std::vector<DeviceId>& gpus,
                                  const std::string& reason, const Done& done) {
  if (auto why = closed_to_changes()) return loop_.post([done, why] { done(*why); });
  for (const DeviceId& gpu : gpus) {
    if (auto why = gpus_.bar_to_overriding(gpu)) return loop_.post([done, why] { done(*why); });
  }
  for (const DeviceId& gpu : gpus) {
    const auto withheld = gpus_.withheld(gpu);
    if (!withheld) continue;
    gpus_.override_withholding(gpu, withheld->first);
    journal_.note(gpu, fmt::format("leased by override ({}): {}", withheld->second, reason),
                  caller.name());
    refresh(gpu);
  }
  journal_.after(done);
}

// Returns the lease as it is decided, for its owner or an administrator; an error while no change
// is possible.
Result<Lease> Leases::own(const Caller& caller, const std::string& id,
                          std::optional<Fence> fence) const {
  if (auto why = closed_to_changes()) return *std::move(why);
  const Lease* lease = journal_.find(id);
  if (!lease) return no_such_lease(id);
  if (lease->uid != caller.uid && !caller.admin) {
    return Error{
        Errc::denied,
        fmt::format("permission denied: lease {} belongs to UID {}", lease->id, lease->uid),
        "only that user and administrators may change it"};
  }
  if (fence && *fence != lease->fence) {
    return Error{Errc::conflict, fmt::format("fence {} does not match the fence of this lease, {}",
                                             *fence, lease->fence)};
  }
  return *lease;
}

}  // namespace gpuyard::lease
