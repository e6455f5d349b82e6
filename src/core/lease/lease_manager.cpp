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

Fairness draining(Fairness fairness) {
  fairness.drains = true;
  return fairness;
}

}  // namespace

Leases::Leases(Loop& loop, Observer& observer, LeaseStorage& archive, Policy policy,
               std::string boot_id)
    : loop_(loop),
      observer_(observer),
      policy_(std::move(policy)),
      boot_id_(std::move(boot_id)),
      limits_(policy_),
      core_(draining(policy_.fairness)),
      gpus_(core_),
      journal_(loop, archive, [this](std::uint32_t uid) { return person(uid); },
               {[this](const Lease& now, State before) { tell(now, before); },
                [this](const Error& why) { on_lost(why); }}),
      holders_(loop, observer, std::min(policy_.most_waiting, kMostKnownProcesses),
               [this](const std::string& id, const Process& process) { on_gone(id, process); }),
      clients_(loop) {
  core_.close();
  if (policy_.mode == Mode::observe) gpus_.observe_only();
}

void Leases::claim(const Caller& caller, std::string id, const Wish& wish, const Answer& asker) {
  if (id.empty()) id = new_id();
  const Answer answer = [this, id, caller, asker](Result<Lease> lease) {
    const bool held = lease && lease->state == State::held;
    if (held && !caller.is_gone()) clients_.heard(id);
    asker(std::move(lease));
  };
  if (auto valid = check(wish); !valid) return refuse(valid.error(), answer);
  if (journal_.find(id) || wish.binding == Binding::detached) {
    return decide(caller, std::nullopt, id, wish, answer);
  }
  if (caller.pid == 0) {
    return refuse(
        {Errc::invalid,
         "a lease bound to a process needs the caller's process, which is known only on a Unix "
         "socket within one PID namespace; request a detached lease, which lasts for a fixed time"},
        answer);
  }
  holders_.identify(caller.pid, [this, caller, id, wish, answer](Result<Identity> found) {
    if (found && caller.is_gone()) found = Error{Errc::not_found, "the caller has exited"};
    if (!found) return refuse(std::move(found).error().in("the caller"), answer);
    decide(caller, *found, id, wish, answer);
  });
}

// All that is needed is known; the claim now gets its place in the order.
void Leases::decide(const Caller& caller, const std::optional<Identity>& holder,
                    const std::string& id, const Wish& wish, const Answer& answer) {
  if (auto why = closed_to_claims()) return refuse(*why, answer);
  if (const Lease* known = journal_.find(id)) return repeat(caller, *known, wish, answer);
  if (const auto why = observed(wish.gpus)) return refuse(*why, answer);
  if (auto slow = limits_.count_claim(caller, loop_.now()); !slow) {
    return refuse(slow.error(), answer);
  }
  const Terms terms = terms_of(caller.uid, wish);
  if (auto possible = core_.possible(terms); !possible) return refuse(possible.error(), answer);
  Lease lease;
  lease.id = id;
  lease.uid = caller.uid;
  lease.wish = wish;
  lease.boot_id = boot_id_;
  lease.asked = loop_.now();
  lease.asked_wall = loop_.wall();
  if (holder) lease.processes.push_back(holder->process);
  if (wish.patience == Duration::zero()) return try_now(caller, holder, lease, terms, answer);
  if (auto room = limits_.room_to_wait(caller, core_.waiting().size()); !room) {
    return refuse(room.error(), answer);
  }

  Effects effects;
  lease.ticket = core_.claim(terms, loop_.now(), effects);
  by_ticket_[lease.ticket] = id;
  limits_.waits(caller.uid);
  journal_.put(lease, "asked", caller.name());
  journal_.counters(core_.last_ticket(), core_.last_fence());
  if (holder) holders_.bind(id, *holder);
  follow(effects);
  wake_by(loop_.now() + std::min(wish.patience.value_or(kTick), kTick));
  answer_when_kept(id, answer);
}

void Leases::try_now(const Caller& caller, const std::optional<Identity>& holder, Lease lease,
                     const Terms& terms, const Answer& answer) {
  if (const auto why = closed()) return refuse(*why, answer);
  const auto ticket = core_.try_claim(terms, loop_.now());
  if (!ticket) {  // nobody has to remember it
    lease.state = State::ended;
    lease.ending = Ending::none_free;
    lease.ended_wall = loop_.wall();
    loop_.post([answer, lease] { answer(lease); });
    return;
  }
  lease.ticket = *ticket;
  by_ticket_[lease.ticket] = lease.id;
  limits_.waits(caller.uid);
  journal_.put(lease, "asked", caller.name());
  if (holder) holders_.bind(lease.id, *holder);
  on_granted(*core_.find(*ticket));
  answer_when_kept(lease.id, answer);
}

Result<Offer> Leases::offer(std::uint32_t uid, const Wish& wish) const {
  if (const auto why = closed()) return *why;
  if (const auto why = observed(wish.gpus)) return Offer{.why = why->text()};
  const Terms terms = terms_of(uid, wish);
  Terms of_one = terms;
  of_one.count = 1;
  const GpuSet any = core_.available(of_one);
  Offer offer{gpus_.names(any)};
  if (const GpuSet left = terms.count == 1 ? any : core_.available(terms); left.any()) {
    offer.chosen = gpus_.names(place(core_.gpus(), left, terms.count));
  } else if (const auto possible = core_.possible(terms); !possible) {
    offer.why = possible.error().text();
  } else if (exceeds_quota(uid, terms.count)) {
    offer.why = limit_text();
    offer.over_limit = true;
  } else {
    offer.why = fmt::format("{} of {} matching GPUs {} free", offer.free.size(),
                            terms.eligible.count(), offer.free.size() == 1 ? "is" : "are");
  }
  return offer;
}

// Answers a repeated call with the state of its lease.
void Leases::repeat(const Caller& caller, const Lease& known, const Wish& wish,
                    const Answer& answer) {
  if (known.uid != caller.uid) {
    return refuse({Errc::conflict, "this ID belongs to another user's lease"}, answer);
  }
  if (!(known.wish == wish)) {
    return refuse(
        {Errc::conflict, "this ID was used for a different request; a new claim needs a new ID"},
        answer);
  }
  answer_when_kept(known.id, answer);
}

Terms Leases::terms_of(std::uint32_t uid, const Wish& wish) const {
  Terms terms;
  terms.owner = person(uid);
  terms.count = wish.gpus;
  terms.eligible = gpus_.eligible(wish);
  terms.min_free_bytes = wish.min_free_bytes;
  terms.longest = wish.longest;
  return terms;
}

void Leases::refuse(const Error& why, const Answer& answer) {
  loop_.post([answer, why] { answer(why); });
}

void Leases::answer_when_kept(const std::string& id, const Answer& answer) {
  journal_.after([this, id, answer](const Result<void>& kept) {
    if (!kept) return answer(Error(kept.error()).in("the journal of leases"));
    const Lease* lease = find(id);
    if (!lease) return answer(no_such_lease(id));
    answer(*lease);
  });
}

void Leases::follow(const Effects& effects) {
  for (const Ticket ticket : effects.granted) on_granted(*core_.find(ticket));
  for (const Ticket ticket : effects.passed) {
    const auto found = by_ticket_.find(ticket);
    const Claim* claim = core_.find(ticket);
    if (found == by_ticket_.end() || !claim) continue;
    Lease lease = *journal_.find(found->second);
    lease.passed = claim->passed;
    journal_.put_silently(lease);
  }
  for (const Ticket ticket : effects.overdue) on_overdue(ticket);
}

void Leases::on_granted(const Claim& claim) {
  Lease lease = *journal_.find(by_ticket_.at(claim.ticket));
  lease.state = State::held;
  lease.fence = claim.fence;
  lease.gpus = gpus_.names(claim.gpus);
  lease.granted = loop_.now();
  lease.granted_wall = loop_.wall();
  if (lease.wish.binding == Binding::detached) lease.until = loop_.now() + lease.wish.ttl;
  limits_.stops_waiting(lease.uid);
  journal_.put(lease, "granted");
  journal_.counters(core_.last_ticket(), core_.last_fence());
  wake_by(loop_.now() + kTick);
}

void Leases::on_overdue(Ticket ticket) {
  Lease lease = *journal_.find(by_ticket_.at(ticket));
  lease.overdue = true;
  log::warning("lease {} of UID {} is held longer than announced", lease.id, lease.uid);
  if (policy_.end_overdue) return let_go(lease, Ending::expired, "its maximum time has passed");
  journal_.put(lease, "overdue");
}

void Leases::let_go(Lease lease, Ending ending, const std::string& by, const std::string& why) {
  follow(core_.release(lease.ticket, loop_.now()));
  lease.state = State::draining;
  lease.ending = ending;
  lease.let_go_wall = loop_.wall();
  lease.why = why;
  journal_.put(lease, "draining", by);
  drain();
}

void Leases::end(Lease lease, Ending ending, const std::string& by, const std::string& why) {
  const bool waited = lease.state == State::waiting;
  lease.state = State::ended;
  lease.ending = ending;
  lease.why = why;
  lease.ended_wall = loop_.wall();
  journal_.put(lease, "ended", by);
  holders_.release(lease.id, lease.processes);
  clients_.forget(lease.id);
  drop_signals(lease.id, true);
  alive_.erase(lease.id);
  leftover_.erase(lease.id);
  by_ticket_.erase(lease.ticket);
  if (waited) limits_.stops_waiting(lease.uid);
  for (const DeviceId& gpu : lease.gpus) gpus_.freed(gpu, loop_.now());
  follow(waited ? core_.cancel(lease.ticket, loop_.now()) : core_.freed(lease.ticket, loop_.now()));
}

// While it is not known what the disk holds, nothing is written; afterwards rebind() finds out
// again that the process is gone.
void Leases::on_gone(const std::string& id, const Process& process) {
  if (standing_ == Standing::loading) return;
  const Lease* found = journal_.find(id);
  if (!found || found->wish.binding == Binding::detached) return;
  if (found->processes.empty() || found->processes.front() != process) return;
  const std::string by = fmt::format("PID {} exited", process.pid);
  if (found->state == State::waiting) end(*found, Ending::exited, by);
  if (found->state == State::held) let_go(*found, Ending::exited, by);
}

Subscription Leases::attend(const std::string& id, Attendance how) {
  const Lease* lease = journal_.find(id);
  if (!lease || lease->state == State::ended) return {};
  return clients_.attend(id, how);
}

Subscription Leases::watch(const std::string& id, std::function<void(const Lease&)> told) {
  return clients_.watch(id, std::move(told));
}

void Leases::tell(const Lease& now, State before) {
  if (now.state == State::held && before == State::waiting) clients_.granted(now);
  if (told_) told_(now, before);
  clients_.tell(now);
}

const Lease* Leases::find(std::string_view id) const {
  const auto found = journal_.kept().find(id);
  return found == journal_.kept().end() ? nullptr : &found->second;
}

Result<void> Leases::may_use(std::string_view id, std::optional<Fence> fence,
                             const DeviceId& gpu) const {
  if (!were_read()) return closed_to_changes().value_or(no_such_lease(id));
  const Lease* lease = find(id);
  if (!lease) return no_such_lease(id);
  if (lease->state != State::held) return not_held(*lease);
  if (fence && *fence != lease->fence) {
    return Error{Errc::conflict,
                 fmt::format("fence {} is older than that of the lease, {}", *fence, lease->fence)};
  }
  if (std::find(lease->gpus.begin(), lease->gpus.end(), gpu) != lease->gpus.end()) return {};
  return Error{Errc::conflict, fmt::format("lease {} does not include this GPU", id)};
}

std::vector<QueueEntry> Leases::outlooks(std::size_t most) const {
  std::vector<QueueEntry> all;
  for (const Outlook& outlook : core_.outlooks(loop_.now(), most)) {
    const auto found = by_ticket_.find(outlook.ticket);
    if (found != by_ticket_.end()) all.push_back({found->second, outlook});
  }
  return all;
}

}  // namespace gpuyard::lease
