// An event of a GPU, from its driver or the kernel's log: one moment, not a state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/token_bucket.h"
#include "gpu/device/device.h"

namespace gpuyard {

enum class EventKind : std::uint8_t {
  xid,              // the driver's own number for what went wrong
  ecc_corrected,    // a memory error of one bit
  ecc_uncorrected,  // a memory error of two bits
  poison,           // poisoned data was met, and stopped before it did harm
  fatal_poison,     // poisoned data was met, and did harm
  unavailable,      // the GPU is gone, or wants a reset before anything else
  recovery_action,  // the recommended recovery action has changed
  events_lost,      // some events were not passed on; the text says how many
};
BOOST_DESCRIBE_ENUM(EventKind, xid, ecc_corrected, ecc_uncorrected, poison, fatal_poison,
                    unavailable, recovery_action, events_lost)

enum class EventSource : std::uint8_t { driver, kernel_log };
BOOST_DESCRIBE_ENUM(EventSource, driver, kernel_log)

// note: for the record; warn: a person should check it, but the GPU goes on; stop: work on this GPU
// has failed or will fail.
enum class EventSeverity : std::uint8_t { note, warn, stop };
BOOST_DESCRIBE_ENUM(EventSeverity, note, warn, stop)

struct DeviceEvent {
  DeviceId device;  // empty: of no known GPU
  EventKind kind = EventKind::xid;
  EventSource source = EventSource::driver;
  TimePoint at = {};
  std::optional<std::uint32_t> xid = {};  // set for EventKind::xid
  std::optional<std::uint32_t> pid = {};  // the affected process, if the source reports it
  std::string text = {};                  // the source's own words, if it has any
  std::uint64_t lost = 0;                 // of events_lost: how many; 0: not known

  friend bool operator==(const DeviceEvent&, const DeviceEvent&) = default;
};
BOOST_DESCRIBE_STRUCT(DeviceEvent, (), (device, kind, source, at, xid, pid, text, lost))

// The numbers of events that were dropped since the daemon started, because too many came at once.
// A loss of unknown size counts as one.
struct EventDrops {
  std::uint64_t driver = 0;
  std::uint64_t kernel_log = 0;
};

// Limits the events of one GPU that are passed on: a dying GPU can have thousands a second.

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

    friend bool operator<(const Key& one, const Key& other) {
      return std::tie(one.device, one.notes, one.kind, one.xid) <
             std::tie(other.device, other.notes, other.kind, other.xid);
    }
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
