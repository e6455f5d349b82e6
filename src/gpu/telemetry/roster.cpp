#include "telemetry/roster.h"

#include <algorithm>
#include <set>
#include <utility>

namespace gpuyard::telemetry {
namespace {

bool has(const std::vector<DeviceInfo>& all, const DeviceId& id) {
  return std::ranges::find(all, id, &DeviceInfo::id) != all.end();
}

// The same number of GPUs in the same order, some of which do not open now: these are the ones that
// had their places, and keep their identity.
std::vector<DeviceInfo> with_identity(std::vector<DeviceInfo> counted,
                                      const std::vector<DeviceInfo>& before) {
  if (counted.size() != before.size()) return counted;
  const std::vector<DeviceInfo> said = counted;
  for (DeviceInfo& info : counted) {
    if (!info.uuid.empty()) continue;
    const auto place = std::ranges::find(before, info.index, &DeviceInfo::index);
    if (place == before.end() || place->uuid.empty() || has(said, place->id)) continue;
    DeviceInfo known = *place;
    known.fault = info.fault;
    info = std::move(known);
  }
  return counted;
}

}  // namespace

void Roster::arrive(const std::vector<DeviceInfo>& counted, TimePoint now, WallTime wall) {
  const auto before = std::exchange(counted_, with_identity(counted, counted_));
  for (const DeviceInfo& info : before) {
    if (!info.uuid.empty() && !has(counted_, info.id)) note_gone(info, now, wall);
  }
  std::erase_if(gone_, [&](const Gone& one) { return has(counted_, one.info.id); });
}

void Roster::note_gone(const DeviceInfo& info, TimePoint now, WallTime wall) {
  Gone gone{info, now};
  gone.info.fault =
      Missing{MissingReason::device_lost,
              "no longer there since " + to_rfc3339(wall) + ": the driver does not list it"};
  if (gone_.size() == kMostGone) gone_.erase(gone_.begin());
  gone_.push_back(std::move(gone));
}

bool Roster::forget(TimePoint now) {
  return std::erase_if(gone_, [&](const Gone& one) { return now - one.since > kRemembered; }) > 0;
}

std::vector<DeviceInfo> Roster::list() const {
  std::vector<DeviceInfo> all = counted_;
  std::set<std::uint32_t> taken;
  for (const DeviceInfo& info : counted_) taken.insert(info.index);
  for (const Gone& one : gone_) {
    all.push_back(one.info);
    if (taken.contains(one.info.index)) all.back().index = *taken.rbegin() + 1;
    taken.insert(all.back().index);
  }
  std::ranges::sort(all, {}, &DeviceInfo::index);
  return all;
}

}  // namespace gpuyard::telemetry
