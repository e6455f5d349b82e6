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

}  // namespace gpuyard::lease
