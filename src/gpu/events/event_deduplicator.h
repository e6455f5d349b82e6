// The driver and the kernel's log both report most Xids; this decides which account is new. Pure
// state: the caller gives the time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/clock.h"
#include "gpu/device/device.h"
#include "gpu/device/event.h"

namespace gpuyard::events {

class EventDeduplicator {
 public:
  // Returns how bad the Xid was by the account of the other source, if that source already reported
  // this Xid of this GPU; otherwise remembers the event until its second account comes. Matches one
  // to one: of three in a row, reported by both sources, three are new. `now` is when the event was
  // received, which no source's clock can shift.
  std::optional<EventSeverity> find_duplicate(const DeviceEvent&, TimePoint now);

  // The longest time between the two accounts of one Xid.
  static constexpr Duration kMatchWindow = std::chrono::seconds(5);
  // The most events that wait for the second account; beyond that the oldest is dropped.
  static constexpr std::size_t kMaxWaiting = 4096;

 private:
  struct WaitingEvent {
    DeviceId device;
    std::uint32_t xid;
    EventSource source;
    EventSeverity severity;
    TimePoint received_at;
  };
  std::deque<WaitingEvent> waiting_;  // oldest first
};

}  // namespace gpuyard::events
