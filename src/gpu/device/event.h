// An event of a GPU, from its driver or the kernel's log: one moment, not a state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/token_bucket.h"
#include "device/device.h"

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

// note: for the record; warn: a person should look, but the GPU goes on; stop: work on this GPU has
// failed or will fail.
enum class Severity : std::uint8_t { note, warn, stop };
BOOST_DESCRIBE_ENUM(Severity, note, warn, stop)

struct DeviceEvent {
  DeviceId device;  // empty: of no known GPU
  EventKind kind = EventKind::xid;
  EventSource source = EventSource::driver;
  TimePoint at = {};
  std::optional<std::uint32_t> xid = {};  // set for EventKind::xid
  std::optional<std::uint32_t> pid = {};  // the affected process, if the source tells it
  std::string text = {};                  // the source's own words, if it has any

  friend bool operator==(const DeviceEvent&, const DeviceEvent&) = default;
};
BOOST_DESCRIBE_STRUCT(DeviceEvent, (), (device, kind, source, at, xid, pid, text))

// Limits the events of one GPU that are passed on: a dying GPU can have thousands a second.

// Passes on `burst` events at once, then `each_second`. Pure state; has as many keys as its owner
// uses.
class EventLimit {
 public:
  EventLimit(double burst, double each_second) : burst_(burst), each_second_(each_second) {}

  // Returns false, and counts the event, if there are too many.
  bool admit(const DeviceId&, TimePoint now);

  // Returns one event for each GPU whose events were refused, as soon as one would be admitted
  // again; then counts from 0. Call it from time to time.
  std::vector<DeviceEvent> take_refused(EventSource, TimePoint now);
  // True if take_refused() still has events to return.
  bool holds_back() const;

 private:
  struct Bucket {
    TokenBucket tokens;
    std::uint64_t refused = 0;
  };

  const double burst_;
  const double each_second_;
  std::map<DeviceId, Bucket> buckets_;
};

}  // namespace gpuyard
