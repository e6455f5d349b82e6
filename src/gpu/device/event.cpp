#include "gpu/device/event.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "gpu/device/xid.h"

namespace gpuyard {

EventLimit::Lane EventLimit::lane_of(const DeviceEvent& event) {
  Lane lane{event.device};
  if (severity_of(event) == Severity::note) return lane;
  lane.notes = false;
  lane.kind = event.kind;
  if (event.kind == EventKind::xid) lane.xid = event.xid;
  return lane;
}

bool EventLimit::admit(const DeviceEvent& event, TimePoint now) {
  const auto made = buckets_.try_emplace(lane_of(event), Bucket{{burst_, each_second_, now}});
  Bucket& bucket = made.first->second;
  if (bucket.tokens.take(now)) return ++bucket.refused, false;
  return true;
}

std::vector<DeviceEvent> EventLimit::take_refused(EventSource source, TimePoint now) {
  std::vector<DeviceEvent> told;
  for (auto& [lane, bucket] : buckets_) {
    if (bucket.refused == 0) continue;
    if (!bucket.tokens.has_one(now)) continue;
    const std::uint64_t count = std::exchange(bucket.refused, 0);
    DeviceEvent lost{lane.device, EventKind::events_lost, source, now, {}, {}, "", count};
    const std::string what = lane.xid ? fmt::format("with Xid {} ", *lane.xid) : "";
    lost.text = fmt::format("{} more {} {}{} dropped: too many at once", count,
                            count == 1 ? "event" : "events", what, count == 1 ? "was" : "were");
    told.push_back(std::move(lost));
  }
  return told;
}

bool EventLimit::holds_back() const {
  return std::ranges::any_of(buckets_, [](const auto& one) { return one.second.refused > 0; });
}

}  // namespace gpuyard
