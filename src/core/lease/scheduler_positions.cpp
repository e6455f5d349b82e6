// The queue positions of waiting claims: why they wait, behind how many, until when.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "core/lease/scheduler.h"

namespace gpuyard::lease {
namespace {

constexpr TimePoint kNever = TimePoint::max();

}  // namespace

struct Scheduler::Forecast {
  const Scheduler& scheduler;
  TimePoint now;
  const GpuAllocations& allocations = scheduler.allocations_;
  GpuSet open = allocations.open();
  GpuSet in_service = allocations.in_service();
  std::vector<TimePoint> free_at = free_times();  // when each GPU is free next
  // The number of earlier claims for each set of GPUs that they could use.
  std::vector<std::pair<GpuSet, std::size_t>> earlier_claims = {};
  std::vector<Slot> soonest = {};

  std::size_t position(const GpuSet& eligible);
  WaitReason wait_reason(const GpuRequest&) const;
  std::vector<TimePoint> free_times() const;
  std::optional<TimePoint> expected_start(const GpuRequest&);
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

WaitReason Scheduler::Forecast::wait_reason(const GpuRequest& request) const {
  if (!scheduler.open_) return WaitReason::not_open;
  if (allocations.is_over_quota(request)) return WaitReason::quota;
  const GpuSet eligible = in_service & request.eligible;
  if (eligible.count() < request.count) return WaitReason::out_of_service;
  if (allocations.usable(request, open).count() >= request.count) return WaitReason::behind_earlier;
  const GpuSet free = open & request.eligible;
  if (free.count() >= request.count) return WaitReason::memory;
  GpuSet unleased = eligible & ~allocations.taken();
  for_each_slot(unleased, [&](Slot slot) {
    if (!allocations.gpus()[slot].availability.in_unleased_use) unleased.reset(slot);
  });
  return (free | unleased).count() >= request.count ? WaitReason::squatted : WaitReason::busy;
}

// Returns when each GPU is free, if all holders keep to what they said.
std::vector<TimePoint> Scheduler::Forecast::free_times() const {
  std::vector<TimePoint> times(allocations.gpus().size(), kNever);
  for_each_slot(open, [&](Slot slot) { times[slot] = now; });
  for (const auto& [ticket, claim] : allocations.claims()) {
    const auto end = claim.expected_end();
    if (!end) continue;
    for_each_slot(claim.gpus, [&](Slot slot) {
      if (allocations.gpus()[slot].availability.in_service) times[slot] = std::max(*end, now);
    });
  }
  return times;
}

// Assumes that no claim overtakes another. The claim takes the GPUs that are free soonest, until it
// ends; one that could not start with everything released takes none.
std::optional<TimePoint> Scheduler::Forecast::expected_start(const GpuRequest& request) {
  const GpuSet attainable = allocations.attainable(request, open, in_service);
  if (allocations.is_over_quota(request) || attainable.count() < request.count) return std::nullopt;
  soonest.clear();
  for_each_slot(attainable, [&](Slot slot) { soonest.push_back(slot); });
  std::ranges::sort(soonest, {}, [&](Slot slot) { return std::pair(free_at[slot], slot); });
  soonest.resize(request.count);
  const TimePoint start = free_at[soonest.back()];
  const TimePoint end = start != kNever && request.max_hold_time
                            ? saturating_add(start, *request.max_hold_time)
                            : kNever;
  for (const Slot slot : soonest) free_at[slot] = end;
  return start == kNever ? std::nullopt : std::optional(start);
}

std::vector<QueuePosition> Scheduler::queue_positions(TimePoint now, std::size_t limit) const {
  Forecast forecast{*this, now};
  std::vector<QueuePosition> all;
  for (auto here = waiting_.begin(); here != waiting_.end() && all.size() < limit; ++here) {
    const Claim& claim = here->second;
    QueuePosition queue_position;
    queue_position.ticket = claim.ticket;
    queue_position.position = forecast.position(claim.request.eligible);
    queue_position.reason = forecast.wait_reason(claim.request);
    queue_position.expected_start = forecast.expected_start(claim.request);
    all.push_back(queue_position);
  }
  return all;
}

}  // namespace gpuyard::lease
