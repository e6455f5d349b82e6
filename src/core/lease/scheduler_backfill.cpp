// The order of claims, and which may pass which.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/lease/scheduler.h"

namespace gpuyard::lease {

struct Core::Head {
  Claim* claim;
  GpuSet reach;                       // free GPUs that it could use while it waits for more
  std::optional<TimePoint> reserved;  // when it could begin, if all keep to what they said
};

struct Core::Round {
  TimePoint now;
  GpuSet open;  // free, and may be handed out
  GpuSet in_service;
  GpuSet kept;  // kept for heads that no claim may pass
  std::vector<Head> heads;
  GpuSet beyond;  // what classes beyond kMostHeads could use: no later claim gets it
};

GpuSet Core::available(const Terms& terms) const {
  if (!open_ || !possible(terms) || over_quota(terms)) return {};
  const GpuSet free = open_gpus();
  const GpuSet in_service_now = in_service();
  GpuSet left = usable(terms, free);
  for (const auto& [ticket, earlier] : waiting_) {
    if (left.count() < terms.count) return {};
    if (may_begin(earlier.terms, free, in_service_now)) left &= ~usable(earlier.terms, free);
  }
  return left.count() < terms.count ? GpuSet{} : left;
}

std::optional<Ticket> Core::try_claim(const Terms& terms, TimePoint now) {
  const GpuSet left = available(terms);
  if (left.none()) return std::nullopt;
  return grant_new(terms, place(gpus_, left, terms.count), now);
}

// Each grant may change what others keep back, so the queue is looked at anew: an owner at the
// quota keeps nothing, and a claim that passes another may make known when that one begins.
void Core::schedule(TimePoint now, Effects& effects) {
  if (!open_) return;
  unsettled_ = false;
  while (!waiting_.empty() && serve_next(now, effects)) {
  }
}

// Grants GPUs to the first claim in the queue that may have some. Returns whether there was one.
bool Core::serve_next(TimePoint now, Effects& effects) {
  Round round{now, open_gpus(), in_service(), {}, {}, {}};
  for (auto here = waiting_.begin(); here != waiting_.end(); ++here) {
    if ((round.open & ~round.kept).none()) return false;
    Claim& claim = here->second;
    if (over_quota(claim.terms)) continue;
    const GpuSet gpus = choose(claim, round);
    if (gpus.any()) {
      note_passes(gpus, round, effects);
      effects.granted.push_back(claim.ticket);
      grant(waiting_.extract(here), gpus, now);
      return true;
    }
    wait(claim, round);
  }
  return false;
}

// Counts the pass for each head that waits with one of these GPUs, and is passed by (c).
void Core::note_passes(const GpuSet& gpus, const Round& round, Effects& effects) {
  for (const Head& head : round.heads) {
    if (head.reserved || (head.reach & gpus).none()) continue;
    ++head.claim->passed;
    const Ticket passed = head.claim->ticket;
    if (std::ranges::find(effects.passed, passed) == effects.passed.end()) {
      effects.passed.push_back(passed);
    }
  }
}

// Returns the GPUs that the claim gets now; none if it has to wait. Prefers GPUs that no head waits
// with.
GpuSet Core::choose(const Claim& claim, const Round& round) const {
  const GpuSet reach = usable(claim.terms, round.open) & ~round.beyond;
  if (reach.count() < claim.terms.count) return {};
  GpuSet untouched = reach;
  GpuSet mine = reach;
  for (const Head& head : round.heads) {
    untouched &= ~head.reach;
    if (!may_pass(claim, head, round.now)) mine &= ~head.reach;
  }
  const GpuSet& from = untouched.count() >= claim.terms.count ? untouched : mine;
  return from.count() < claim.terms.count ? GpuSet{} : place(gpus_, from, claim.terms.count);
}

// Whether the claim would have its GPUs if everything were released.
bool Core::may_begin(const Terms& terms, const GpuSet& open, const GpuSet& in_service) const {
  return !over_quota(terms) && attainable(terms, open, in_service).count() >= terms.count;
}

// The claim keeps back what it could use, if it is the first of its class, could begin at all, and
// its owner does not keep back enough already.
void Core::wait(Claim& claim, Round& round) const {
  const Terms& terms = claim.terms;
  std::size_t of_owner = 0;
  for (const Head& head : round.heads) {
    const Terms& other = head.claim->terms;
    if (other.eligible == terms.eligible && other.min_free_bytes == terms.min_free_bytes) return;
    if (other.owner == terms.owner) ++of_owner;
  }
  if (of_owner >= kMostHeadsOfOwner) return;
  if (!may_begin(terms, round.open, round.in_service)) return;
  const GpuSet reach = usable(terms, round.open);
  if (round.heads.size() == kMostHeads) {
    round.beyond |= reach;
    round.kept |= reach;
    return;
  }
  const bool enough = reach.count() >= terms.count;
  round.heads.push_back({&claim, reach, enough ? std::nullopt : reservation(claim, reach)});
  if (shut(round.heads.back())) round.kept |= reach;
}

bool Core::may_pass(const Claim& claim, const Head& head, TimePoint now) const {
  if (shut(head)) return false;
  if (!head.reserved) return true;
  return claim.terms.longest && later(now, *claim.terms.longest) <= *head.reserved &&
         trusted(claim.terms.owner, now);
}

// Whether no claim at all may pass this one.
bool Core::shut(const Head& head) const {
  if (fairness_.strict) return true;
  return !head.reserved && (head.claim->terms.count == 1 || head.claim->passed >= kPasses);
}

bool Core::trusted(std::uint32_t owner, TimePoint now) const {
  const auto found = mistrusted_.find(owner);
  return found == mistrusted_.end() || found->second <= now;
}

// Returns when the claim could begin, if all holders who said how long they hold keep to it.
std::optional<TimePoint> Core::reservation(const Claim& head, const GpuSet& usable_now) const {
  const std::size_t missing = head.terms.count - usable_now.count();
  std::vector<TimePoint> ends;
  for (const auto& [ticket, claim] : live_) {
    const auto end = claim.ends();
    if (!end) continue;
    each_slot(claim.gpus & head.terms.eligible, [&](Slot slot) {
      if (gpus_[slot].now.in_service) ends.push_back(*end);
    });
  }
  if (ends.size() < missing) return std::nullopt;
  std::sort(ends.begin(), ends.end());
  return ends[missing - 1];
}

// The outlooks of waiting claims: why they wait, in which place, until when.
namespace {

constexpr TimePoint kNever = TimePoint::max();

}  // namespace

struct Core::Forecast {
  GpuSet open;
  GpuSet in_service;
  std::vector<TimePoint> free_at;  // when each GPU is free next
  // The number of earlier claims for each set of GPUs that they could use.
  std::vector<std::pair<GpuSet, std::size_t>> before = {};
  std::vector<Slot> soonest = {};

  std::size_t position(const GpuSet& eligible);
};

// Returns the place of a claim among those that want some of the same GPUs, and counts it for later
// ones.
std::size_t Core::Forecast::position(const GpuSet& eligible) {
  std::size_t place = 1;
  bool counted = false;
  for (auto& [others, claims] : before) {
    if ((others & eligible).any()) place += claims;
    if (others != eligible) continue;
    counted = true;
    ++claims;
  }
  if (!counted) before.emplace_back(eligible, 1);
  return place;
}

Hindrance Core::hindrance(const Claim& claim, const Forecast& forecast) const {
  const Terms& terms = claim.terms;
  if (!open_) return Hindrance::not_open;
  if (over_quota(terms)) return Hindrance::quota;
  const GpuSet in_service = forecast.in_service & terms.eligible;
  if (in_service.count() < terms.count) return Hindrance::out_of_service;
  if (usable(terms, forecast.open).count() >= terms.count) return Hindrance::behind_earlier;
  const GpuSet open = forecast.open & terms.eligible;
  if (open.count() >= terms.count) return Hindrance::memory;
  GpuSet squatted = in_service & ~taken_;
  each_slot(squatted, [&](Slot slot) {
    if (!gpus_[slot].now.squatted) squatted.reset(slot);
  });
  return (open | squatted).count() >= terms.count ? Hindrance::squatted : Hindrance::busy;
}

// Returns when each GPU is free, if all holders keep to what they said.
std::vector<TimePoint> Core::free_times(TimePoint now) const {
  std::vector<TimePoint> free_at(gpus_.size(), kNever);
  each_slot(open_gpus(), [&](Slot slot) { free_at[slot] = now; });
  for (const auto& [ticket, claim] : live_) {
    const auto end = claim.ends();
    if (!end) continue;
    each_slot(claim.gpus, [&](Slot slot) {
      if (gpus_[slot].now.in_service) free_at[slot] = std::max(*end, now);
    });
  }
  return free_at;
}

// Assumes that no claim passes another. The claim takes the GPUs that are free soonest, until it
// ends; one that could not begin with everything released takes none.
std::optional<TimePoint> Core::begin_of(const Claim& claim, Forecast& forecast) const {
  const Terms& terms = claim.terms;
  const GpuSet within = attainable(terms, forecast.open, forecast.in_service);
  if (over_quota(terms) || within.count() < terms.count) return std::nullopt;
  std::vector<Slot>& soonest = forecast.soonest;
  soonest.clear();
  each_slot(within, [&](Slot slot) { soonest.push_back(slot); });
  std::ranges::sort(soonest, {},
                    [&](Slot slot) { return std::pair(forecast.free_at[slot], slot); });
  soonest.resize(terms.count);
  const TimePoint begin = forecast.free_at[soonest.back()];
  const TimePoint end = begin != kNever && terms.longest ? later(begin, *terms.longest) : kNever;
  for (const Slot slot : soonest) forecast.free_at[slot] = end;
  return begin == kNever ? std::nullopt : std::optional(begin);
}

std::vector<Outlook> Core::outlooks(TimePoint now, std::size_t most) const {
  Forecast forecast{open_gpus(), in_service(), free_times(now)};
  std::vector<Outlook> all;
  for (auto here = waiting_.begin(); here != waiting_.end() && all.size() < most; ++here) {
    const Claim& claim = here->second;
    Outlook outlook;
    outlook.ticket = claim.ticket;
    outlook.position = forecast.position(claim.terms.eligible);
    outlook.why = hindrance(claim, forecast);
    outlook.expected = begin_of(claim, forecast);
    all.push_back(outlook);
  }
  return all;
}

// Chooses among the free GPUs so that linked ones stay together, for this claim and for the next.
// Nothing here allocates.
namespace {

using Gpus = std::vector<Gpu>;

enum class Nearness { clique, numa_node, heat };

std::optional<unsigned> group(const Gpu& gpu, Nearness nearness) {
  return nearness == Nearness::clique ? gpu.clique : gpu.numa_node;
}

auto heat(const Gpu& gpu) {
  return std::tuple(gpu.now.temperature_c.value_or(INT64_MAX), std::string_view(gpu.key));
}

Slot coolest(const Gpus& gpus, const GpuSet& set) {
  Slot best = set._Find_first();
  auto lowest = heat(gpus[best]);
  each_slot(set, [&](Slot slot) {
    const auto its = heat(gpus[slot]);
    if (its >= lowest) return;
    lowest = its;
    best = slot;
  });
  return best;
}

// Visits groups of near GPUs, one after the other. A GPU whose group is not known is alone, if the
// group of another is known. If none is known, all GPUs are one group.
template <class Visit>
void each_part(const Gpus& gpus, GpuSet rest, Nearness nearness, Visit&& visit) {
  bool any_known = false;
  each_slot(rest, [&](Slot slot) { any_known = any_known || group(gpus[slot], nearness); });
  if (!any_known) return visit(rest);
  while (rest.any()) {
    const Slot first = rest._Find_first();
    const auto name = group(gpus[first], nearness);
    GpuSet part;
    part.set(first);
    if (name) {
      each_slot(rest, [&](Slot slot) { part.set(slot, group(gpus[slot], nearness) == name); });
    }
    rest &= ~part;
    visit(part);
  }
}

// Returns the smallest group that is enough, to leave larger ones whole; if none is enough, the
// largest.
GpuSet best_part(const Gpus& gpus, const GpuSet& usable, std::size_t count, Nearness nearness) {
  const auto rank = [&](const GpuSet& part) {
    const auto size = static_cast<std::int64_t>(part.count());
    const bool enough = part.count() >= count;
    return std::tuple(!enough, enough ? size : -size, heat(gpus[coolest(gpus, part)]));
  };
  GpuSet best;
  std::optional<decltype(rank(best))> lowest;
  each_part(gpus, usable, nearness, [&](const GpuSet& part) {
    const auto its = rank(part);
    if (lowest && its >= *lowest) return;
    lowest = its;
    best = part;
  });
  return best;
}

GpuSet pick(const Gpus& gpus, GpuSet usable, std::size_t count, Nearness nearness) {
  GpuSet picked;
  while (usable.count() > count) {
    if (nearness == Nearness::heat) {
      const Slot slot = coolest(gpus, usable);
      picked.set(slot);
      usable.reset(slot);
      if (--count == 0) return picked;
      continue;
    }
    const GpuSet best = best_part(gpus, usable, count, nearness);
    if (best.count() >= count) {
      const Nearness below = nearness == Nearness::clique ? Nearness::numa_node : Nearness::heat;
      return picked | pick(gpus, best, count, below);
    }
    picked |= best;
    usable &= ~best;
    count -= best.count();
  }
  return picked | usable;
}

}  // namespace

GpuSet place(const Gpus& gpus, const GpuSet& usable, unsigned count) {
  return pick(gpus, usable, count, Nearness::clique);
}

}  // namespace gpuyard::lease
