// What people ask for, and what follows from it. Beside it: leases_restore.cpp, how it is made from
// what was kept, and leases_time.cpp, what happens by itself.
#include "lease/leases.h"

#include <poll.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "base/new_id.h"

namespace gpuyard::lease {
namespace {

Fairness draining(Fairness fairness) {
  fairness.drains = true;
  return fairness;
}

bool is_gone(const Caller& caller) {
  if (!caller.process) return false;
  pollfd look{caller.process->get(), POLLIN, 0};
  return ::poll(&look, 1, 0) > 0;
}

// The number that a caller tells may be one of another PID namespace, and then somebody else's
// here.
bool is_child(const Lease& lease, const Identity& who) {
  return who.uid == lease.uid &&
         std::any_of(lease.processes.begin(), lease.processes.end(),
                     [&](const Process& one) { return one.pid == who.parent; });
}

Error no_such_lease(std::string_view id) {
  return {Errc::not_found,
          fmt::format("there is no lease \"{}\"; one that is over is forgotten after a day", id)};
}

}  // namespace

Leases::Leases(Loop& loop, Observer& observer, Archive& archive, Policy policy, std::string boot_id)
    : loop_(loop),
      observer_(observer),
      archive_(archive),
      policy_(policy),
      boot_id_(std::move(boot_id)),
      core_(draining(policy.fairness)),
      gpus_(core_),
      journal_(loop, archive,
               {[this](const Lease& now, State before) { tell(now, before); },
                [this](const Error& why) { on_lost(why); }}),
      holders_(loop, observer,
               [this](const std::string& id, const Process& process) { on_gone(id, process); }),
      presence_(loop) {
  core_.close();
}

void Leases::claim(const Caller& caller, std::string id, const Wish& wish, const Answer& answer) {
  if (id.empty()) id = new_id();
  auto valid = check_id(id);
  if (valid) valid = check(wish);
  if (!valid) return refuse(valid.error(), answer);
  if (journal_.find(id) || wish.binding == Binding::detached) {
    return decide(caller, std::nullopt, id, wish, answer);
  }
  if (caller.pid == 0) {
    return refuse({Errc::invalid,
                   "a lease that lasts as long as a process needs the caller's, which the kernel "
                   "tells on a Unix socket and within one PID namespace; ask for a detached one, "
                   "which lasts a time"},
                  answer);
  }
  holders_.identify(caller.pid, [this, caller, id, wish, answer](Result<Identity> found) {
    if (found && is_gone(caller)) found = Error{Errc::not_found, "the caller is gone"};
    if (!found) return refuse(std::move(found).error().in("the caller"), answer);
    decide(caller, *found, id, wish, answer);
  });
}

// Everything is known that is needed: now it has its place in the order.
void Leases::decide(const Caller& caller, const std::optional<Identity>& holder,
                    const std::string& id, const Wish& wish, const Answer& answer) {
  if (auto why = closed_to_claims()) return refuse(*why, answer);
  if (const Lease* known = journal_.find(id)) return repeat(caller, *known, wish, answer);
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
  if (auto room = room_for(caller.uid); !room) return refuse(room.error(), answer);

  Effects effects;
  lease.ticket = core_.claim(terms, loop_.now(), effects);
  by_ticket_[lease.ticket] = id;
  ++waiting_of_[caller.uid];
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
  if (!ticket) {  // which nobody has to remember
    lease.state = State::ended;
    lease.ending = Ending::none_free;
    lease.ended_wall = loop_.wall();
    loop_.post([answer, lease] { answer(lease); });
    return;
  }
  lease.ticket = *ticket;
  by_ticket_[lease.ticket] = lease.id;
  ++waiting_of_[lease.uid];
  journal_.put(lease, "asked", caller.name());
  if (holder) holders_.bind(lease.id, *holder);
  on_granted(*core_.find(*ticket));
  answer_when_kept(lease.id, answer);
}

// The same call once more is answered as things stand.
void Leases::repeat(const Caller& caller, const Lease& known, const Wish& wish,
                    const Answer& answer) {
  if (known.uid != caller.uid) {
    return refuse({Errc::conflict, "this id is the one of somebody else's lease"}, answer);
  }
  if (!(known.wish == wish)) {
    return refuse({Errc::conflict,
                   "this id was used to ask for something else; a new claim needs "
                   "a new id"},
                  answer);
  }
  presence_.come_by(known.id);
  answer_when_kept(known.id, answer);
}

Result<void> Leases::room_for(std::uint32_t uid) const {
  const auto own = waiting_of_.find(uid);
  const bool too_many_own = own != waiting_of_.end() && own->second >= kMostWaitingOfOwner;
  if (!too_many_own && core_.waiting().size() < kMostWaiting) return {};
  return Error{Errc::busy, fmt::format("{} claims wait already{}; try again later",
                                       too_many_own ? own->second : core_.waiting().size(),
                                       too_many_own ? " for this user" : "")};
}

Terms Leases::terms_of(std::uint32_t uid, const Wish& wish) const {
  Terms terms;
  terms.owner = uid;
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

void Leases::release(const Caller& caller, const std::string& id, const Release& how,
                     const Answer& answer) {
  if (auto why = closed_to_changes()) return refuse(*why, answer);
  auto owned = own(caller, id, how.fence);
  if (!owned) return refuse(owned.error(), answer);
  Lease lease = *std::move(owned);
  if (how.force && !caller.admin) {
    return refuse({Errc::denied, "only root and gpuyard's own user may force it"}, answer);
  }
  const bool others = lease.uid != caller.uid;
  const Ending ending = how.force || others ? Ending::forced : Ending::released;
  if (how.signal != 0 && lease.state != State::ended) {
    signals_[id] = {how.signal, caller.admin ? std::nullopt : std::optional(lease.uid)};
  }
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

// Whoever still uses the GPUs is outside any lease from now on, and has to be known before others
// get them.
void Leases::force(const Caller& caller, const Lease& lease, const std::string& reason,
                   const Answer& answer) {
  log::warning("lease {} is ended by {} though it still drains ({}): {}", lease.id, caller.name(),
               lease.why, reason);
  observer_.look(
      {}, lease.gpus, true,
      [weak = std::weak_ptr(self_), caller, id = lease.id, reason, answer](const Sight& sight) {
        const auto self = weak.lock();
        if (!self) return;
        Leases& leases = **self;
        if (auto why = leases.closed_to_changes()) return leases.refuse(*why, answer);
        leases.look_outside(sight);
        const Lease* still = leases.journal_.find(id);
        if (still && still->state == State::draining) {
          leases.end(*still, Ending::forced, caller.name(), reason);
        }
        leases.answer_when_kept(id, answer);
      });
}

void Leases::renew(const Caller& caller, const std::string& id, Duration ttl,
                   std::optional<Fence> fence, const Answer& answer) {
  if (auto why = closed_to_changes()) return refuse(*why, answer);
  auto owned = own(caller, id, fence);
  if (!owned) return refuse(owned.error(), answer);
  Lease lease = *std::move(owned);
  lease.wish.ttl = ttl;
  if (lease.wish.binding != Binding::detached) {
    return refuse({Errc::conflict, "it lasts as long as its process, and not a time"}, answer);
  }
  if (lease.state != State::held) {
    return refuse({Errc::conflict, "it is not held (any more)"}, answer);
  }
  if (auto valid = check(lease.wish); !valid) return refuse(valid.error(), answer);
  lease.wish = journal_.find(id)->wish;  // asking again with the first wish is no new claim
  lease.until = std::min(loop_.now() + ttl, lease.granted + kLongestDetached);
  journal_.put(lease, "renewed", caller.name());
  answer_when_kept(id, answer);
}

void Leases::add_member(const Caller& caller, const std::string& id, std::uint32_t pid,
                        std::optional<Fence> fence, const Answer& answer) {
  if (auto why = closed_to_changes()) return refuse(*why, answer);
  auto owned = own(caller, id, fence);
  if (!owned) return refuse(owned.error(), answer);
  holders_.identify(pid, [this, caller, id, fence, answer](Result<Identity> found) {
    if (!found) return refuse(found.error(), answer);
    if (auto why = closed_to_changes()) return refuse(*why, answer);
    auto still = own(caller, id, fence);
    if (!still) return refuse(still.error(), answer);
    Lease lease = *std::move(still);
    if (!caller.admin && !is_child(lease, *found)) {
      return refuse(
          {Errc::denied,
           fmt::format("pid {} is no child of the lease's own process, as the daemon sees "
                       "it; in a PID namespace of its own a process has another number",
                       found->process.pid)},
          answer);
    }
    if (lease.state != State::held) {
      return refuse({Errc::conflict, "the lease is not held (any more)"}, answer);
    }
    if (lease.processes.size() >= kMostMembers) {
      return refuse({Errc::busy, "too many processes were counted to it"}, answer);
    }
    const auto& known = lease.processes;
    if (std::find(known.begin(), known.end(), found->process) == known.end()) {
      lease.processes.push_back(found->process);
      journal_.put(lease, fmt::format("counts pid {}", found->process.pid), caller.name());
    }
    answer_when_kept(id, answer);
  });
}

void Leases::adopt(const Caller& caller, std::uint32_t pid, const std::string& note,
                   const Answer& answer) {
  if (auto why = closed_to_claims()) return refuse(*why, answer);
  holders_.identify(pid, [this, caller, note, answer](Result<Identity> found) {
    if (!found) return refuse(found.error(), answer);
    if (found->uid != caller.uid && !caller.admin) {
      return refuse({Errc::denied, "that process is somebody else's"}, answer);
    }
    std::vector<DeviceId> all;
    for (const auto& [gpu, slot] : gpus_.slots()) all.push_back(gpu);
    observer_.look(
        suspects(false), all, true,
        [weak = std::weak_ptr(self_), caller, who = *found, note, answer](const Sight& sight) {
          if (const auto self = weak.lock()) {
            (*self)->adopt_on(caller, who, note, sight, answer);
          }
        });
  });
}

void Leases::adopt_on(const Caller& caller, const Identity& who, const std::string& note,
                      const Sight& sight, const Answer& answer) {
  if (auto why = closed_to_claims()) return refuse(*why, answer);
  GpuSet used;
  for (const auto& [gpu, list] : sight.on_gpus) {
    const auto slot = gpus_.slots().find(gpu);
    if (!list || slot == gpus_.slots().end() || core_.holder(slot->second)) continue;
    const bool there = std::any_of(list->begin(), list->end(), [&](const Seen& one) {
      return one.pid == who.process.pid && one.verdict == Seen::Verdict::outsider;
    });
    if (there) used.set(slot->second);
  }
  if (!caller.admin && exceeds_quota(who.uid, used.count())) {
    return refuse({Errc::conflict, fmt::format("one user may have {} GPUs at a time",
                                               policy_.fairness.most_gpus_of_owner)},
                  answer);
  }
  const auto ticket = core_.adopt(who.uid, used, loop_.now());
  if (!ticket) {
    return refuse(
        {Errc::conflict, fmt::format("pid {} uses no GPU that is in no lease", who.process.pid)},
        answer);
  }
  Lease lease;
  lease.id = new_id();
  lease.uid = who.uid;
  lease.wish.gpus = static_cast<unsigned>(used.count());
  lease.wish.note = note.empty() ? who.command : note;
  lease.ticket = *ticket;
  lease.boot_id = boot_id_;
  lease.asked = loop_.now();
  lease.asked_wall = loop_.wall();
  lease.processes.push_back(who.process);
  by_ticket_[lease.ticket] = lease.id;
  ++waiting_of_[lease.uid];
  journal_.put(lease, fmt::format("adopts pid {}", who.process.pid), caller.name());
  holders_.bind(lease.id, who);
  on_granted(*core_.find(*ticket));
  look_outside(sight);
  answer_when_kept(lease.id, answer);
}

bool Leases::exceeds_quota(std::uint32_t uid, std::size_t more) const {
  const unsigned most = policy_.fairness.most_gpus_of_owner;
  if (most == 0) return false;
  std::size_t held = more;
  for (const auto& [ticket, claim] : core_.live()) {
    if (claim.terms.owner == uid) held += claim.gpus.count();
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
    if (gpus_.cordons().count(gpu) == 0) continue;
    gpus_.uncordon(gpu);
    journal_.uncordon(gpu, caller.name());
    refresh(gpu);
  }
  journal_.after(done);
}

// The caller's own lease, as it is decided; or an administrator's business.
Result<Lease> Leases::own(const Caller& caller, const std::string& id,
                          std::optional<Fence> fence) const {
  const Lease* lease = journal_.find(id);
  if (!lease) return no_such_lease(id);
  if (lease->uid != caller.uid && !caller.admin) {
    return Error{Errc::denied, fmt::format("the lease is uid {}'s; only he, root and gpuyard's own "
                                           "user may change it",
                                           lease->uid)};
  }
  if (fence && *fence != lease->fence) {
    return Error{Errc::conflict, fmt::format("fence {} is not the one of this lease, which is {}",
                                             *fence, lease->fence)};
  }
  return *lease;
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
  waits_no_more(lease.uid);
  journal_.put(lease, "granted");
  journal_.counters(core_.last_ticket(), core_.last_fence());
  wake_by(loop_.now() + kTick);
}

void Leases::on_overdue(Ticket ticket) {
  Lease lease = *journal_.find(by_ticket_.at(ticket));
  lease.overdue = true;
  log::warning("lease {} of uid {} is held longer than it said", lease.id, lease.uid);
  if (policy_.end_overdue) return let_go(lease, Ending::expired, "its longest time is over");
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
  presence_.forget(lease.id);
  signals_.erase(lease.id);
  alive_.erase(lease.id);
  by_ticket_.erase(lease.ticket);
  if (waited) waits_no_more(lease.uid);
  for (const DeviceId& gpu : lease.gpus) freed_at_[gpu] = loop_.now();
  follow(waited ? core_.cancel(lease.ticket, loop_.now()) : core_.freed(lease.ticket, loop_.now()));
}

void Leases::waits_no_more(std::uint32_t uid) {
  const auto found = waiting_of_.find(uid);
  if (found != waiting_of_.end() && --found->second == 0) waiting_of_.erase(found);
}

// While it is not known what the disk holds, nothing is written: it is found out again afterwards.
void Leases::on_gone(const std::string& id, const Process& process) {
  if (standing_ == Standing::loading) return;
  const Lease* found = journal_.find(id);
  if (!found || found->wish.binding == Binding::detached) return;
  if (found->processes.empty() || found->processes.front() != process) return;
  const std::string by = fmt::format("pid {} exited", process.pid);
  if (found->state == State::waiting) end(*found, Ending::exited, by);
  if (found->state == State::held) let_go(*found, Ending::exited, by);
}

Subscription Leases::attend(const std::string& id, Attendance how) {
  const Lease* lease = journal_.find(id);
  if (!lease || lease->state == State::ended) return {};
  return presence_.attend(id, how);
}

Subscription Leases::watch(const std::string& id, std::function<void(const Lease&)> told) {
  const std::uint64_t number = ++next_watcher_;
  watchers_[id].emplace(number, std::move(told));
  return Subscription([weak = std::weak_ptr(self_), id, number] {
    const auto self = weak.lock();
    if (!self) return;
    auto& all = (*self)->watchers_;
    const auto found = all.find(id);
    if (found == all.end()) return;
    found->second.erase(number);
    if (found->second.empty()) all.erase(found);
  });
}

// A listener may go, and take others with it, while they are told.
void Leases::tell(const Lease& now, State before) {
  if (told_) told_(now, before);
  const auto found = watchers_.find(now.id);
  if (found == watchers_.end()) return;
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, told] : found->second) numbers.push_back(number);
  for (const std::uint64_t number : numbers) {
    const auto here = watchers_.find(now.id);
    if (here == watchers_.end()) return;
    const auto listener = here->second.find(number);
    if (listener == here->second.end()) continue;
    const auto told = listener->second;
    told(now);
  }
}

const Lease* Leases::find(std::string_view id) const {
  const auto found = journal_.kept().find(id);
  return found == journal_.kept().end() ? nullptr : &found->second;
}

Result<void> Leases::may_use(std::string_view id, std::optional<Fence> fence,
                             const DeviceId& gpu) const {
  const Lease* lease = find(id);
  if (!lease) return no_such_lease(id);
  if (lease->state != State::held) {
    return Error{Errc::conflict, fmt::format("the lease {} is not held (any more)", id)};
  }
  if (fence && *fence != lease->fence) {
    return Error{Errc::conflict, fmt::format("fence {} is an older one than that of the lease, {}",
                                             *fence, lease->fence)};
  }
  if (std::find(lease->gpus.begin(), lease->gpus.end(), gpu) != lease->gpus.end()) return {};
  return Error{Errc::conflict, fmt::format("the lease {} has other GPUs", id)};
}

std::vector<WaitingOutlook> Leases::outlooks(std::size_t most) const {
  std::vector<WaitingOutlook> all;
  for (const Outlook& outlook : core_.outlooks(loop_.now(), most)) {
    const auto found = by_ticket_.find(outlook.ticket);
    if (found != by_ticket_.end()) all.push_back({found->second, outlook});
  }
  return all;
}

bool Leases::leased(const DeviceId& gpu) const {
  const auto slot = gpus_.slots().find(gpu);
  return slot != gpus_.slots().end() && core_.holder(slot->second).has_value();
}

}  // namespace gpuyard::lease
