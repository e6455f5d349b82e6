// What waiting claims may expect: why they wait, in which place, until when.
#include <algorithm>
#include <utility>
#include <vector>

#include "lease/core.h"

namespace gpuyard::lease {
namespace {

constexpr TimePoint kNever = TimePoint::max();

}  // namespace

struct Core::Forecast {
  GpuSet open;
  GpuSet in_service;
  std::vector<TimePoint> free_at;  // when each GPU is free next
  // Claims that were looked at, by what they could use.
  std::vector<std::pair<GpuSet, std::size_t>> before = {};
  std::vector<Slot> soonest = {};

  std::size_t position(const GpuSet& eligible);
};

// Counts those who came before and want some of the same, and this one for those who come after.
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

// If all go as they say.
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

// Nobody passes anybody here. A claim takes the GPUs that are free soonest, until it ends; one that
// could not begin whoever let go takes none.
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

}  // namespace gpuyard::lease
