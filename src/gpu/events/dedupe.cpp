#include "events/dedupe.h"

#include <algorithm>

namespace gpuyard::events {

bool Dedupe::is_new(const DeviceEvent& event, TimePoint now) {
  while (!waiting_.empty() && now - waiting_.front().heard > kWindow) waiting_.pop_front();
  // Of a GPU that is not known nothing says that it is the same one.
  if (!event.xid || event.device.empty()) return true;
  const auto twin = std::ranges::find_if(waiting_, [&](const Waiting& one) {
    return one.source != event.source && one.xid == *event.xid && one.device == event.device;
  });
  if (twin != waiting_.end()) {
    waiting_.erase(twin);
    return false;
  }
  if (waiting_.size() == kMostWaiting) waiting_.pop_front();
  waiting_.push_back({event.device, *event.xid, event.source, now});
  return true;
}

}  // namespace gpuyard::events
