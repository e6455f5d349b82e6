#include "gpu/events/event_deduplicator.h"

#include <algorithm>

#include "gpu/device/xid.h"

namespace gpuyard::events {

std::optional<EventSeverity> EventDeduplicator::find_duplicate(const DeviceEvent& event,
                                                               TimePoint now) {
  while (!waiting_.empty() && now - waiting_.front().received_at > kMatchWindow)
    waiting_.pop_front();
  // Two events of unknown GPUs cannot be matched: nothing says that it is the same GPU.
  if (!event.xid || event.device.empty()) return std::nullopt;
  const auto match = std::ranges::find_if(waiting_, [&](const WaitingEvent& one) {
    return one.source != event.source && one.xid == *event.xid && one.device == event.device;
  });
  if (match != waiting_.end()) {
    const EventSeverity severity = match->severity;
    waiting_.erase(match);
    return severity;
  }
  if (waiting_.size() == kMaxWaiting) waiting_.pop_front();
  waiting_.push_back({event.device, *event.xid, event.source, severity_of(event), now});
  return std::nullopt;
}

}  // namespace gpuyard::events
