// Grants GPUs to the claims in the queue: their order, and which may overtake which (backfill).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/lease/placement.h"
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

}  // namespace gpuyard::lease
