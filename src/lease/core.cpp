#include "lease/core.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace gpuyard::lease {

struct Core::Head {
  Ticket ticket;
  GpuSet reach;  // free GPUs that it could use, and waits for more of
  bool several;
  unsigned passed;
  std::optional<TimePoint> reserved;
};

Result<Slot> Core::add(Gpu gpu) {
  gpu.known = true;
  Slot slot = 0;
  while (slot < gpus_.size() && gpus_[slot].known) ++slot;
  if (slot == kMostGpus) {
    return Error{Errc::busy, fmt::format("a pool has room for {} GPUs", kMostGpus)};
  }
  if (slot == gpus_.size()) gpus_.emplace_back();
  gpus_[slot] = std::move(gpu);
  known_.set(slot);
  return slot;
}

void Core::remove(Slot slot) {
  if (slot >= gpus_.size() || taken_[slot]) return;
  gpus_[slot] = Gpu{};
  gpus_[slot].known = false;
  known_.reset(slot);
  // Its place may be another's soon, whom nobody here has asked for.
  for (auto& [ticket, claim] : waiting_) claim.terms.eligible.reset(slot);
}

void Core::locate(Slot slot, std::optional<unsigned> clique, std::optional<unsigned> numa_node) {
  if (slot >= gpus_.size() || !known_[slot]) return;
  gpus_[slot].clique = clique;
  gpus_[slot].numa_node = numa_node;
}

Effects Core::set(Slot slot, Condition condition, TimePoint now) {
  Effects effects;
  if (slot >= gpus_.size() || !known_[slot]) return effects;
  gpus_[slot].now = condition;
  schedule(now, effects);
  return effects;
}

Effects Core::open(TimePoint now) {
  open_ = true;
  Effects effects = advance(now);
  schedule(now, effects);
  return effects;
}

void Core::restore(const Claim& claim) {
  last_ticket_ = std::max(last_ticket_, claim.ticket);
  last_fence_ = std::max(last_fence_, claim.fence);
  if (claim.stage == Claim::Stage::waiting) {
    waiting_.insert_or_assign(claim.ticket, claim);
    return;
  }
  live_.insert_or_assign(claim.ticket, claim);
  taken_ |= claim.gpus;
  held_by_[claim.terms.owner] += static_cast<unsigned>(claim.gpus.count());
}

void Core::restore_counters(Ticket last_ticket, Fence last_fence) {
  last_ticket_ = std::max(last_ticket_, last_ticket);
  last_fence_ = std::max(last_fence_, last_fence);
}

Result<void> Core::possible(const Terms& terms) const {
  if (terms.count == 0) return Error{Errc::invalid, "a claim of no GPU"};
  const std::size_t reach = (terms.eligible & known_).count();
  if (reach < terms.count) {
    return Error{Errc::invalid,
                 fmt::format("{} GPU{} wanted, but only {} of the {} here could ever "
                             "serve that",
                             terms.count, terms.count == 1 ? "" : "s", reach, known_.count())};
  }
  const unsigned most = fairness_.most_gpus_of_owner;
  if (most > 0 && terms.count > most) {
    return Error{Errc::invalid, fmt::format("{} GPUs wanted, but one user may have {} at a time",
                                            terms.count, most)};
  }
  return {};
}

Ticket Core::claim(const Terms& terms, TimePoint now, Effects& effects) {
  const Ticket ticket = ++last_ticket_;
  Claim claim;
  claim.ticket = ticket;
  claim.terms = terms;
  waiting_.emplace_hint(waiting_.end(), ticket, std::move(claim));
  schedule(now, effects);
  return ticket;
}

std::optional<Ticket> Core::try_claim(const Terms& terms, TimePoint now) {
  if (!open_ || !possible(terms) || over_quota(terms)) return std::nullopt;
  const GpuSet free = open_gpus();
  GpuSet left = usable(terms, free);
  for (const auto& [ticket, earlier] : waiting_) {
    if (left.count() < terms.count) return std::nullopt;
    if (!over_quota(earlier.terms)) left &= ~usable(earlier.terms, free);
  }
  if (left.count() < terms.count) return std::nullopt;
  Claim claim;
  claim.ticket = ++last_ticket_;
  claim.terms = terms;
  return grant(std::move(claim), place(gpus_, left, terms.count), now).ticket;
}

std::optional<Ticket> Core::adopt(std::uint32_t owner, const GpuSet& gpus, TimePoint now) {
  if (gpus.none() || (gpus & (taken_ | ~known_)).any()) return std::nullopt;
  Claim claim;
  claim.ticket = ++last_ticket_;
  claim.terms.owner = owner;
  claim.terms.count = static_cast<unsigned>(gpus.count());
  claim.terms.eligible = gpus;
  return grant(std::move(claim), gpus, now).ticket;
}

void Core::reach(Ticket ticket, const GpuSet& eligible) {
  const auto found = waiting_.find(ticket);
  if (found != waiting_.end()) found->second.terms.eligible = eligible;
}

Effects Core::cancel(Ticket ticket, TimePoint now) {
  Effects effects;
  if (waiting_.erase(ticket) > 0) schedule(now, effects);
  return effects;
}

Effects Core::release(Ticket ticket, TimePoint now) {
  Effects effects;
  const auto found = live_.find(ticket);
  if (found == live_.end() || found->second.stage != Claim::Stage::held) return effects;
  if (fairness_.drains) {
    found->second.stage = Claim::Stage::draining;
    return effects;
  }
  let_go(found->second);
  schedule(now, effects);
  return effects;
}

Effects Core::freed(Ticket ticket, TimePoint now) {
  Effects effects;
  const auto found = live_.find(ticket);
  if (found == live_.end() || found->second.stage != Claim::Stage::draining) return effects;
  let_go(found->second);
  schedule(now, effects);
  return effects;
}

Effects Core::advance(TimePoint now) {
  Effects effects;
  for (auto& [ticket, claim] : live_) {
    const auto ends = claim.ends();
    if (claim.stage != Claim::Stage::held || !ends || now < *ends) continue;
    claim.overdue = true;
    mistrusted_[claim.terms.owner] = now + kTrustLost;
    effects.overdue.push_back(ticket);
  }
  std::erase_if(mistrusted_, [now](const auto& one) { return one.second <= now; });
  if (!effects.overdue.empty()) schedule(now, effects);
  return effects;
}

std::optional<TimePoint> Core::next_due() const {
  std::optional<TimePoint> next;
  for (const auto& [ticket, claim] : live_) {
    const auto ends = claim.stage == Claim::Stage::held ? claim.ends() : std::nullopt;
    if (ends && (!next || *ends < *next)) next = ends;
  }
  return next;
}

const Claim* Core::find(Ticket ticket) const {
  if (const auto found = waiting_.find(ticket); found != waiting_.end()) return &found->second;
  const auto found = live_.find(ticket);
  return found == live_.end() ? nullptr : &found->second;
}

std::optional<Ticket> Core::holder(Slot slot) const {
  if (slot >= kMostGpus || !taken_[slot]) return std::nullopt;
  for (const auto& [ticket, claim] : live_) {
    if (claim.gpus[slot]) return ticket;
  }
  return std::nullopt;
}

// That nobody has and that may be handed out.
GpuSet Core::open_gpus() const {
  GpuSet open = known_ & ~taken_;
  each_slot(open, [&](Slot slot) {
    const Condition& now = gpus_[slot].now;
    if (!now.in_service || now.squatted) open.reset(slot);
  });
  return open;
}

bool Core::enough_memory(const Terms& terms, Slot slot) const {
  return gpus_[slot].now.free_bytes.value_or(terms.min_free_bytes) >= terms.min_free_bytes;
}

GpuSet Core::usable(const Terms& terms, GpuSet of) const {
  of &= terms.eligible;
  if (terms.min_free_bytes == 0) return of;
  each_slot(of, [&](Slot slot) {
    if (!enough_memory(terms, slot)) of.reset(slot);
  });
  return of;
}

bool Core::over_quota(const Terms& terms) const {
  if (fairness_.most_gpus_of_owner == 0) return false;
  const auto found = held_by_.find(terms.owner);
  const unsigned held = found == held_by_.end() ? 0 : found->second;
  return held + terms.count > fairness_.most_gpus_of_owner;
}

bool Core::trusted(std::uint32_t owner, TimePoint now) const {
  const auto found = mistrusted_.find(owner);
  return found == mistrusted_.end() || found->second <= now;
}

bool Core::may_pass(const Claim& claim, const Head& head, TimePoint now) const {
  if (fairness_.strict) return false;
  if (!head.reserved) return head.several && head.passed < kPasses;
  return claim.terms.longest && now + *claim.terms.longest <= *head.reserved &&
         trusted(claim.terms.owner, now);
}

// When it could begin, if all who said how long they hold keep to it.
std::optional<TimePoint> Core::reservation(const Claim& head, const GpuSet& usable_now) const {
  const std::size_t missing = head.terms.count - usable_now.count();
  std::vector<TimePoint> ends;
  for (const auto& [ticket, claim] : live_) {
    const auto end = claim.stage == Claim::Stage::held ? claim.ends() : std::nullopt;
    if (!end) continue;
    each_slot(claim.gpus & head.terms.eligible, [&](Slot slot) {
      if (gpus_[slot].now.in_service) ends.push_back(*end);
    });
  }
  if (ends.size() < missing) return std::nullopt;
  std::sort(ends.begin(), ends.end());
  return ends[missing - 1];
}

void Core::schedule(TimePoint now, Effects& effects) {
  if (!open_ || waiting_.empty()) return;
  GpuSet open = open_gpus();
  std::vector<Head> heads;
  for (auto next = waiting_.begin(); next != waiting_.end() && open.any();) {
    const auto here = next++;
    const Claim& claim = here->second;
    if (over_quota(claim.terms)) continue;
    const GpuSet reach = usable(claim.terms, open);
    GpuSet mine = reach;
    for (const Head& head : heads) {
      if (!may_pass(claim, head, now)) mine &= ~head.reach;
    }
    if (mine.count() < claim.terms.count) {
      const bool first = std::none_of(heads.begin(), heads.end(), [&](const Head& head) {
        const Terms& other = waiting_.at(head.ticket).terms;
        return other.eligible == claim.terms.eligible &&
               other.min_free_bytes == claim.terms.min_free_bytes;
      });
      if (!first) continue;
      if (heads.size() == kMostHeads) return;
      heads.push_back(
          {claim.ticket, reach, claim.terms.count > 1, claim.passed,
           reach.count() < claim.terms.count ? reservation(claim, reach) : std::nullopt});
      continue;
    }
    const GpuSet gpus = place(gpus_, mine, claim.terms.count);
    for (Head& head : heads) {
      const bool passes = (head.reach & gpus).any();
      head.reach &= ~gpus;
      if (!passes || head.reserved) continue;
      waiting_.at(head.ticket).passed = ++head.passed;
      effects.passed.push_back(head.ticket);
    }
    open &= ~gpus;
    effects.granted.push_back(grant(std::move(here->second), gpus, now).ticket);
    waiting_.erase(here);
  }
}

Claim& Core::grant(Claim claim, const GpuSet& gpus, TimePoint now) {
  claim.stage = Claim::Stage::held;
  claim.gpus = gpus;
  claim.fence = ++last_fence_;
  claim.granted = now;
  taken_ |= gpus;
  held_by_[claim.terms.owner] += static_cast<unsigned>(gpus.count());
  const Ticket ticket = claim.ticket;
  return live_.insert_or_assign(ticket, std::move(claim)).first->second;
}

void Core::let_go(const Claim& claim) {
  taken_ &= ~claim.gpus;
  const auto held = held_by_.find(claim.terms.owner);
  held->second -= static_cast<unsigned>(claim.gpus.count());
  if (held->second == 0) held_by_.erase(held);
  live_.erase(claim.ticket);
}

// `kept`: free GPUs that earlier claims wait with.
Hindrance Core::hindrance(const Claim& claim, const GpuSet& kept) const {
  const Terms& terms = claim.terms;
  if (!open_) return Hindrance::not_open;
  if (over_quota(terms)) return Hindrance::quota;
  GpuSet in_service = known_ & terms.eligible;
  GpuSet squatted;
  each_slot(in_service, [&](Slot slot) {
    const Condition& now = gpus_[slot].now;
    if (!now.in_service) in_service.reset(slot);
    if (now.squatted && !taken_[slot]) squatted.set(slot);
  });
  if (in_service.count() < terms.count) return Hindrance::out_of_service;
  const GpuSet open = open_gpus() & terms.eligible;
  const GpuSet roomy = usable(terms, open);
  if ((roomy & kept).any() && roomy.count() >= terms.count) return Hindrance::behind_earlier;
  if (open.count() >= terms.count) return Hindrance::memory;
  if ((open | (squatted & in_service)).count() >= terms.count) return Hindrance::squatted;
  return Hindrance::busy;
}

std::vector<Outlook> Core::outlooks(TimePoint now, std::size_t most) const {
  constexpr TimePoint never = TimePoint::max();
  // When each GPU is free next, if all go as they say and nobody passes anybody.
  std::vector<TimePoint> free_at(gpus_.size(), never);
  each_slot(known_ & ~taken_, [&](Slot slot) {
    if (gpus_[slot].now.in_service && !gpus_[slot].now.squatted) free_at[slot] = now;
  });
  for (const auto& [ticket, claim] : live_) {
    const auto end = claim.stage == Claim::Stage::held ? claim.ends() : std::nullopt;
    if (!end) continue;
    each_slot(claim.gpus, [&](Slot slot) {
      if (gpus_[slot].now.in_service) free_at[slot] = std::max(*end, now);
    });
  }
  const GpuSet open = open_gpus();
  GpuSet kept;
  std::vector<Outlook> all;
  std::vector<Slot> soonest;
  std::vector<std::pair<GpuSet, std::size_t>> before;  // claims by what they could use
  for (auto here = waiting_.begin(); here != waiting_.end() && all.size() < most; ++here) {
    const Claim& claim = here->second;
    const Terms& terms = claim.terms;
    Outlook outlook{claim.ticket, 1, hindrance(claim, kept), std::nullopt};
    bool counted = false;
    for (auto& [eligible, claims] : before) {
      if ((eligible & terms.eligible).any()) outlook.position += claims;
      if (eligible != terms.eligible) continue;
      counted = true;
      ++claims;
    }
    if (!counted) before.emplace_back(terms.eligible, 1);
    soonest.clear();
    each_slot(terms.eligible & known_, [&](Slot slot) { soonest.push_back(slot); });
    std::sort(soonest.begin(), soonest.end(), [&](Slot one, Slot other) {
      return std::pair(free_at[one], one) < std::pair(free_at[other], other);
    });
    if (soonest.size() >= terms.count) {
      soonest.resize(terms.count);
      const TimePoint begin = free_at[soonest.back()];
      if (begin != never) outlook.expected = begin;
      const bool ends = begin != never && terms.longest;
      for (const Slot slot : soonest) free_at[slot] = ends ? begin + *terms.longest : never;
    }
    if (!over_quota(terms)) kept |= usable(terms, open);
    all.push_back(outlook);
  }
  return all;
}

}  // namespace gpuyard::lease
