#include "gpu/device/event_rate_limiter.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "gpu/device/xid.h"

namespace gpuyard {

EventRateLimiter::Key EventRateLimiter::key_of(const DeviceEvent& event) {
  Key lane{event.device};
  if (severity_of(event) == EventSeverity::note) return lane;
  lane.notes = false;
  lane.kind = event.kind;
  if (event.kind == EventKind::xid) lane.xid = event.xid;
  return lane;
}

bool EventRateLimiter::admit(const DeviceEvent& event, TimePoint now) {
  const auto made = buckets_.try_emplace(key_of(event), Bucket{{burst_, per_second_, now}});
  Bucket& bucket = made.first->second;
  if (bucket.tokens.take(now)) return ++bucket.dropped, false;
  return true;
}

std::vector<DeviceEvent> EventRateLimiter::take_dropped(EventSource source, TimePoint now) {
  std::vector<DeviceEvent> events;
  for (auto& [lane, bucket] : buckets_) {
    if (bucket.dropped == 0) continue;
    if (!bucket.tokens.has_token(now)) continue;
    const std::uint64_t count = std::exchange(bucket.dropped, 0);
    DeviceEvent lost{lane.device, EventKind::events_lost, source, now, {}, {}, "", count};
    const std::string what = lane.xid ? fmt::format("with Xid {} ", *lane.xid) : "";
    lost.text = fmt::format("{} more {} {}{} dropped: too many at once", count,
                            count == 1 ? "event" : "events", what, count == 1 ? "was" : "were");
    events.push_back(std::move(lost));
  }
  return events;
}

bool EventRateLimiter::has_dropped() const {
  return std::ranges::any_of(buckets_, [](const auto& one) { return one.second.dropped > 0; });
}

}  // namespace gpuyard
