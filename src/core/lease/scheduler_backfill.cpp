// Grants GPUs to the claims in the queue: their order, and which may overtake which (backfill).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/lease/placement.h"
#include "core/lease/scheduler.h"

namespace gpuyard::lease {

struct Scheduler::Round {
  struct Head {  // the first waiting claim of its class
    Claim* claim;
    GpuSet usable_gpus;                       // free GPUs that it could use while it waits for more
    std::optional<TimePoint> reserved_start;  // when it could start, if all keep to what they said
  };

  const Scheduler& scheduler;
  TimePoint now;
  const GpuAllocations& allocations = scheduler.allocations_;
  GpuSet open = allocations.open();
  GpuSet in_service = allocations.in_service();
  GpuSet reserved_gpus = {};  // reserved for heads that no claim may overtake
  std::vector<Head> heads = {};
  GpuSet overflow_gpus = {};  // GPUs for classes beyond kMaxHeads: no later claim gets them

  GpuSet choose_gpus(const Claim&) const;
  void add_head(Claim&);
  void record_overtakes(const GpuSet& gpus, Effects&) const;
  bool can_overtake(const Claim&, const Head&) const;
  bool is_blocking(const Head&) const;
  bool is_trusted(std::uint32_t owner) const;
  std::optional<TimePoint> reservation(const Claim&, const GpuSet& usable_now) const;
};

GpuSet Scheduler::available_gpus(const GpuRequest& request) const {
  if (!open_ || !check_satisfiable(request) || allocations_.is_over_quota(request)) return {};
  const GpuSet free = allocations_.open();
  const GpuSet in_service = allocations_.in_service();
  GpuSet available = allocations_.usable(request, free);
  for (const auto& [ticket, earlier] : waiting_) {
    if (available.count() < request.count) return {};
    if (allocations_.can_start(earlier.request, free, in_service))
      available &= ~allocations_.usable(earlier.request, free);
  }
  return available.count() < request.count ? GpuSet{} : available;
}

std::optional<Ticket> Scheduler::try_claim(const GpuRequest& request, TimePoint now) {
  const GpuSet available = available_gpus(request);
  if (available.none()) return std::nullopt;
  return grant_new(request, choose_placement(allocations_.gpus(), available, request.count), now);
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
  Round round{*this, now};
  for (auto here = waiting_.begin(); here != waiting_.end(); ++here) {
    if ((round.open & ~round.reserved_gpus).none()) return false;
    Claim& claim = here->second;
    if (allocations_.is_over_quota(claim.request)) continue;
    const GpuSet gpus = round.choose_gpus(claim);
    if (gpus.any()) {
      round.record_overtakes(gpus, effects);
      effects.granted.push_back(claim.ticket);
      grant(claim, gpus, now);
      waiting_.erase(here);
      return true;
    }
    round.add_head(claim);
  }
  return false;
}

// Counts the overtake for each head that waits with one of these GPUs, and is overtaken by (c).
void Scheduler::Round::record_overtakes(const GpuSet& gpus, Effects& effects) const {
  for (const Head& head : heads) {
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
GpuSet Scheduler::Round::choose_gpus(const Claim& claim) const {
  const GpuSet usable = allocations.usable(claim.request, open) & ~overflow_gpus;
  if (usable.count() < claim.request.count) return {};
  GpuSet untouched = usable;
  GpuSet allowed = usable;
  for (const Head& head : heads) {
    untouched &= ~head.usable_gpus;
    if (!can_overtake(claim, head)) allowed &= ~head.usable_gpus;
  }
  const GpuSet& from = untouched.count() >= claim.request.count ? untouched : allowed;
  return from.count() < claim.request.count
             ? GpuSet{}
             : choose_placement(allocations.gpus(), from, claim.request.count);
}

// Reserves what the claim could use, if it is the first of its class, could start at all, and its
// owner does not reserve enough already.
void Scheduler::Round::add_head(Claim& claim) {
  const GpuRequest& request = claim.request;
  std::size_t of_owner = 0;
  for (const Head& head : heads) {
    const GpuRequest& other = head.claim->request;
    if (other.eligible == request.eligible && other.min_free_bytes == request.min_free_bytes)
      return;
    if (other.owner == request.owner) ++of_owner;
  }
  if (of_owner >= kMaxHeadsPerOwner) return;
  if (!allocations.can_start(request, open, in_service)) return;
  const GpuSet usable = allocations.usable(request, open);
  if (heads.size() == kMaxHeads) {
    overflow_gpus |= usable;
    reserved_gpus |= usable;
    return;
  }
  const bool enough = usable.count() >= request.count;
  heads.push_back({&claim, usable, enough ? std::nullopt : reservation(claim, usable)});
  if (is_blocking(heads.back())) reserved_gpus |= usable;
}

bool Scheduler::Round::can_overtake(const Claim& claim, const Head& head) const {
  if (is_blocking(head)) return false;
  if (!head.reserved_start) return true;
  return claim.request.max_hold_time &&
         saturating_add(now, *claim.request.max_hold_time) <= *head.reserved_start &&
         is_trusted(claim.request.owner);
}

// Whether no claim at all may overtake this one.
bool Scheduler::Round::is_blocking(const Head& head) const {
  if (scheduler.fairness_.strict) return true;
  return !head.reserved_start &&
         (head.claim->request.count == 1 || head.claim->overtakes >= kMaxOvertakes);
}

bool Scheduler::Round::is_trusted(std::uint32_t owner) const {
  const auto found = scheduler.penalized_until_.find(owner);
  return found == scheduler.penalized_until_.end() || found->second <= now;
}

// Returns when the claim could start, if all holders who said how long they hold keep to it.
std::optional<TimePoint> Scheduler::Round::reservation(const Claim& head,
                                                       const GpuSet& usable_now) const {
  const std::size_t missing = head.request.count - usable_now.count();
  std::vector<TimePoint> ends;
  for (const auto& [ticket, claim] : allocations.claims()) {
    const auto end = claim.expected_end();
    if (!end) continue;
    for_each_slot(claim.gpus & head.request.eligible, [&](Slot slot) {
      if (allocations.gpus()[slot].availability.in_service) ends.push_back(*end);
    });
  }
  if (ends.size() < missing) return std::nullopt;
  std::sort(ends.begin(), ends.end());
  return ends[missing - 1];
}

}  // namespace gpuyard::lease
