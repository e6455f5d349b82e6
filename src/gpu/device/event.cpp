#include "device/event.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace gpuyard {

bool EventLimit::admit(const DeviceId& device, TimePoint now) {
  Bucket& bucket = buckets_.try_emplace(device, Bucket{{burst_, each_second_, now}}).first->second;
  if (bucket.tokens.take(now)) return ++bucket.refused, false;
  return true;
}

std::vector<DeviceEvent> EventLimit::take_refused(EventSource source, TimePoint now) {
  std::vector<DeviceEvent> told;
  for (auto& [device, bucket] : buckets_) {
    if (bucket.refused == 0) continue;
    if (!bucket.tokens.has_one(now)) continue;
    const std::uint64_t count = std::exchange(bucket.refused, 0);
    DeviceEvent lost{device, EventKind::events_lost, source, now, {}, {}, ""};
    lost.text = fmt::format("{} more {} not passed on: too many at once", count,
                            count == 1 ? "event was" : "events were");
    told.push_back(std::move(lost));
  }
  return told;
}

bool EventLimit::holds_back() const {
  return std::ranges::any_of(buckets_, [](const auto& one) { return one.second.refused > 0; });
}

}  // namespace gpuyard
