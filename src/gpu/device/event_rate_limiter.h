// Limits the events of one GPU that are passed on: a dying GPU can have thousands a second.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/token_bucket.h"
#include "gpu/device/device.h"
#include "gpu/device/event.h"

namespace gpuyard {

// Passes on `burst` events at once, then `per_second`. All events of a GPU that are for the record
// share one limit; each number and kind that is more than a note has its own, so a flood of notes
// never drops what stops work. Pure state; has as many keys as its owner uses.
class EventRateLimiter {
 public:
  EventRateLimiter(double burst, double per_second) : burst_(burst), per_second_(per_second) {}

  // Returns false, and counts the event, if there are too many.
  bool admit(const DeviceEvent&, TimePoint now);

  // Returns one event for each limit that refused some, as soon as one would be admitted again;
  // then counts from 0. Call it from time to time.
  std::vector<DeviceEvent> take_dropped(EventSource, TimePoint now);
  // True if take_dropped() still has events to return.
  bool has_dropped() const;

 private:
  struct Key {
    DeviceId device;
    bool notes = true;                      // the one for all that is for the record
    EventKind kind = EventKind::xid;        // of the others
    std::optional<std::uint32_t> xid = {};  // of the others

    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Bucket {
    TokenBucket tokens;
    std::uint64_t dropped = 0;
  };
  static Key key_of(const DeviceEvent&);

  const double burst_;
  const double per_second_;
  std::map<Key, Bucket> buckets_;
};

}  // namespace gpuyard
