// The order of claims, and which may overtake which.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/lease/scheduler.h"

namespace gpuyard::lease {

struct Scheduler::Head {
  Claim* claim;
  GpuSet usable_gpus;                       // free GPUs that it could use while it waits for more
  std::optional<TimePoint> reserved_start;  // when it could start, if all keep to what they said
};

struct Scheduler::Round {
  TimePoint now;
  GpuSet open;  // free, and may be leased
  GpuSet in_service;
  GpuSet reserved_gpus;  // reserved for heads that no claim may overtake
  std::vector<Head> heads;
  GpuSet overflow_gpus;  // GPUs for classes beyond kMaxHeads: no later claim gets them
};

GpuSet Scheduler::available_gpus(const GpuRequest& request) const {
  if (!open_ || !check_satisfiable(request) || is_over_quota(request)) return {};
  const GpuSet free = open_gpus();
  const GpuSet in_service_now = gpus_in_service();
  GpuSet available = usable_gpus(request, free);
  for (const auto& [ticket, earlier] : waiting_) {
    if (available.count() < request.count) return {};
    if (can_start(earlier.request, free, in_service_now))
      available &= ~usable_gpus(earlier.request, free);
  }
  return available.count() < request.count ? GpuSet{} : available;
}

std::optional<Ticket> Scheduler::try_claim(const GpuRequest& request, TimePoint now) {
  const GpuSet available = available_gpus(request);
  if (available.none()) return std::nullopt;
  return grant_new(request, choose_placement(gpus_, available, request.count), now);
}

// Each grant may change what others reserve, so the queue is scheduled again: an owner at the quota
// reserves nothing, and a claim that overtakes another may make known when that one starts.
void Scheduler::schedule(TimePoint now, Effects& effects) {
  if (!open_) return;
  needs_scheduling_ = false;
  while (!waiting_.empty() && grant_next(now, effects)) {
  }
}

// Grants GPUs to the first claim in the queue that may have some. Returns whether there was one.
bool Scheduler::grant_next(TimePoint now, Effects& effects) {
  Round round{now, open_gpus(), gpus_in_service(), {}, {}, {}};
  for (auto here = waiting_.begin(); here != waiting_.end(); ++here) {
    if ((round.open & ~round.reserved_gpus).none()) return false;
    Claim& claim = here->second;
    if (is_over_quota(claim.request)) continue;
    const GpuSet gpus = choose_gpus(claim, round);
    if (gpus.any()) {
      record_overtakes(gpus, round, effects);
      effects.granted.push_back(claim.ticket);
      grant(waiting_.extract(here), gpus, now);
      return true;
    }
    add_head(claim, round);
  }
  return false;
}

// Counts the overtake for each head that waits with one of these GPUs, and is overtaken by (c).
void Scheduler::record_overtakes(const GpuSet& gpus, const Round& round, Effects& effects) {
  for (const Head& head : round.heads) {
    if (head.reserved_start || (head.usable_gpus & gpus).none()) continue;
    ++head.claim->overtakes;
    const Ticket overtaken = head.claim->ticket;
    if (std::ranges::find(effects.overtaken, overtaken) == effects.overtaken.end()) {
      effects.overtaken.push_back(overtaken);
    }
  }
}

// Returns the GPUs that the claim gets now; none if it has to wait. Prefers GPUs that no head waits
// with.
GpuSet Scheduler::choose_gpus(const Claim& claim, const Round& round) const {
  const GpuSet usable = usable_gpus(claim.request, round.open) & ~round.overflow_gpus;
  if (usable.count() < claim.request.count) return {};
  GpuSet untouched = usable;
  GpuSet allowed = usable;
  for (const Head& head : round.heads) {
    untouched &= ~head.usable_gpus;
    if (!can_overtake(claim, head, round.now)) allowed &= ~head.usable_gpus;
  }
  const GpuSet& from = untouched.count() >= claim.request.count ? untouched : allowed;
  return from.count() < claim.request.count ? GpuSet{}
                                            : choose_placement(gpus_, from, claim.request.count);
}

// Whether the claim would have its GPUs if everything were released.
bool Scheduler::can_start(const GpuRequest& request, const GpuSet& open,
                          const GpuSet& in_service) const {
  return !is_over_quota(request) &&
         attainable_gpus(request, open, in_service).count() >= request.count;
}

// Reserves what the claim could use, if it is the first of its class, could start at all, and its
// owner does not reserve enough already.
void Scheduler::add_head(Claim& claim, Round& round) const {
  const GpuRequest& request = claim.request;
  std::size_t of_owner = 0;
  for (const Head& head : round.heads) {
    const GpuRequest& other = head.claim->request;
    if (other.eligible == request.eligible && other.min_free_bytes == request.min_free_bytes)
      return;
    if (other.owner == request.owner) ++of_owner;
  }
  if (of_owner >= kMaxHeadsPerOwner) return;
  if (!can_start(request, round.open, round.in_service)) return;
  const GpuSet usable = usable_gpus(request, round.open);
  if (round.heads.size() == kMaxHeads) {
    round.overflow_gpus |= usable;
    round.reserved_gpus |= usable;
    return;
  }
  const bool enough = usable.count() >= request.count;
  round.heads.push_back({&claim, usable, enough ? std::nullopt : reservation(claim, usable)});
  if (is_blocking_head(round.heads.back())) round.reserved_gpus |= usable;
}

bool Scheduler::can_overtake(const Claim& claim, const Head& head, TimePoint now) const {
  if (is_blocking_head(head)) return false;
  if (!head.reserved_start) return true;
  return claim.request.max_hold_time &&
         saturating_add(now, *claim.request.max_hold_time) <= *head.reserved_start &&
         is_trusted(claim.request.owner, now);
}

// Whether no claim at all may overtake this one.
bool Scheduler::is_blocking_head(const Head& head) const {
  if (fairness_.strict) return true;
  return !head.reserved_start &&
         (head.claim->request.count == 1 || head.claim->overtakes >= kMaxOvertakes);
}

bool Scheduler::is_trusted(std::uint32_t owner, TimePoint now) const {
  const auto found = penalized_until_.find(owner);
  return found == penalized_until_.end() || found->second <= now;
}

// Returns when the claim could start, if all holders who said how long they hold keep to it.
std::optional<TimePoint> Scheduler::reservation(const Claim& head, const GpuSet& usable_now) const {
  const std::size_t missing = head.request.count - usable_now.count();
  std::vector<TimePoint> ends;
  for (const auto& [ticket, claim] : live_) {
    const auto end = claim.expected_end();
    if (!end) continue;
    for_each_slot(claim.gpus & head.request.eligible, [&](Slot slot) {
      if (gpus_[slot].availability.in_service) ends.push_back(*end);
    });
  }
  if (ends.size() < missing) return std::nullopt;
  std::sort(ends.begin(), ends.end());
  return ends[missing - 1];
}

// The queue positions of waiting claims: why they wait, behind how many, until when.
namespace {

constexpr TimePoint kNever = TimePoint::max();

using Gpus = std::vector<Gpu>;

enum class Nearness { clique, numa_node, heat };

std::optional<unsigned> group(const Gpu& gpu, Nearness nearness) {
  return nearness == Nearness::clique ? gpu.clique : gpu.numa_node;
}

auto heat(const Gpu& gpu) {
  return std::tuple(gpu.availability.temperature_c.value_or(INT64_MAX), std::string_view(gpu.key));
}

Slot coolest(const Gpus& gpus, const GpuSet& set) {
  Slot best = set._Find_first();
  auto lowest = heat(gpus[best]);
  for_each_slot(set, [&](Slot slot) {
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
void for_each_part(const Gpus& gpus, GpuSet rest, Nearness nearness, Visit&& visit) {
  bool any_known = false;
  for_each_slot(rest, [&](Slot slot) { any_known = any_known || group(gpus[slot], nearness); });
  if (!any_known) return visit(rest);
  while (rest.any()) {
    const Slot first = rest._Find_first();
    const auto name = group(gpus[first], nearness);
    GpuSet part;
    part.set(first);
    if (name) {
      for_each_slot(rest, [&](Slot slot) { part.set(slot, group(gpus[slot], nearness) == name); });
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
  for_each_part(gpus, usable, nearness, [&](const GpuSet& part) {
    const auto its = rank(part);
    if (lowest && its >= *lowest) return;
    lowest = its;
    best = part;
  });
  return best;
}

GpuSet pick_gpus(const Gpus& gpus, GpuSet usable, std::size_t count, Nearness nearness) {
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
      return picked | pick_gpus(gpus, best, count, below);
    }
    picked |= best;
    usable &= ~best;
    count -= best.count();
  }
  return picked | usable;
}

}  // namespace

struct Scheduler::Forecast {
  GpuSet open;
  GpuSet in_service;
  std::vector<TimePoint> free_at;  // when each GPU is free next
  // The number of earlier claims for each set of GPUs that they could use.
  std::vector<std::pair<GpuSet, std::size_t>> earlier_claims = {};
  std::vector<Slot> soonest = {};

  std::size_t position(const GpuSet& eligible);
};

// Returns the position of a claim among those for some of the same GPUs, and counts it for later
// ones.
std::size_t Scheduler::Forecast::position(const GpuSet& eligible) {
  std::size_t queue_position = 1;
  bool counted = false;
  for (auto& [others, claims] : earlier_claims) {
    if ((others & eligible).any()) queue_position += claims;
    if (others != eligible) continue;
    counted = true;
    ++claims;
  }
  if (!counted) earlier_claims.emplace_back(eligible, 1);
  return queue_position;
}

WaitReason Scheduler::wait_reason(const Claim& claim, const Forecast& forecast) const {
  const GpuRequest& request = claim.request;
  if (!open_) return WaitReason::not_open;
  if (is_over_quota(request)) return WaitReason::quota;
  const GpuSet in_service = forecast.in_service & request.eligible;
  if (in_service.count() < request.count) return WaitReason::out_of_service;
  if (usable_gpus(request, forecast.open).count() >= request.count)
    return WaitReason::behind_earlier;
  const GpuSet open = forecast.open & request.eligible;
  if (open.count() >= request.count) return WaitReason::memory;
  GpuSet unleased = in_service & ~taken_;
  for_each_slot(unleased, [&](Slot slot) {
    if (!gpus_[slot].availability.in_unleased_use) unleased.reset(slot);
  });
  return (open | unleased).count() >= request.count ? WaitReason::squatted : WaitReason::busy;
}

// Returns when each GPU is free, if all holders keep to what they said.
std::vector<TimePoint> Scheduler::free_times(TimePoint now) const {
  std::vector<TimePoint> free_at(gpus_.size(), kNever);
  for_each_slot(open_gpus(), [&](Slot slot) { free_at[slot] = now; });
  for (const auto& [ticket, claim] : live_) {
    const auto end = claim.expected_end();
    if (!end) continue;
    for_each_slot(claim.gpus, [&](Slot slot) {
      if (gpus_[slot].availability.in_service) free_at[slot] = std::max(*end, now);
    });
  }
  return free_at;
}

// Assumes that no claim overtakes another. The claim takes the GPUs that are free soonest, until it
// ends; one that could not start with everything released takes none.
std::optional<TimePoint> Scheduler::expected_start(const Claim& claim, Forecast& forecast) const {
  const GpuRequest& request = claim.request;
  const GpuSet attainable = attainable_gpus(request, forecast.open, forecast.in_service);
  if (is_over_quota(request) || attainable.count() < request.count) return std::nullopt;
  std::vector<Slot>& soonest = forecast.soonest;
  soonest.clear();
  for_each_slot(attainable, [&](Slot slot) { soonest.push_back(slot); });
  std::ranges::sort(soonest, {},
                    [&](Slot slot) { return std::pair(forecast.free_at[slot], slot); });
  soonest.resize(request.count);
  const TimePoint start = forecast.free_at[soonest.back()];
  const TimePoint end = start != kNever && request.max_hold_time
                            ? saturating_add(start, *request.max_hold_time)
                            : kNever;
  for (const Slot slot : soonest) forecast.free_at[slot] = end;
  return start == kNever ? std::nullopt : std::optional(start);
}

std::vector<QueuePosition> Scheduler::queue_positions(TimePoint now, std::size_t limit) const {
  Forecast forecast{open_gpus(), gpus_in_service(), free_times(now)};
  std::vector<QueuePosition> all;
  for (auto here = waiting_.begin(); here != waiting_.end() && all.size() < limit; ++here) {
    const Claim& claim = here->second;
    QueuePosition queue_position;
    queue_position.ticket = claim.ticket;
    queue_position.position = forecast.position(claim.request.eligible);
    queue_position.reason = wait_reason(claim, forecast);
    queue_position.expected_start = expected_start(claim, forecast);
    all.push_back(queue_position);
  }
  return all;
}

// Chooses among the free GPUs so that linked ones stay together, for this claim and for the next.
// Nothing here allocates.

GpuSet choose_placement(const Gpus& gpus, const GpuSet& usable, unsigned count) {
  return pick_gpus(gpus, usable, count, Nearness::clique);
}

}  // namespace gpuyard::lease
