// What happens to a GPU, as its driver or the kernel's log tells it: one moment, not a state.
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
  recovery_action,  // what would help it has changed
  events_lost,      // there were more events than are passed on; how many, the text says
};
BOOST_DESCRIBE_ENUM(EventKind, xid, ecc_corrected, ecc_uncorrected, poison, fatal_poison,
                    unavailable, recovery_action, events_lost)

enum class EventSource : std::uint8_t { driver, kernel_log };
BOOST_DESCRIBE_ENUM(EventSource, driver, kernel_log)

// How bad it is: note - for the record; warn - somebody should look, the GPU goes on; stop - work
// on this GPU has failed or will.
enum class Severity : std::uint8_t { note, warn, stop };
BOOST_DESCRIBE_ENUM(Severity, note, warn, stop)

struct DeviceEvent {
  DeviceId device;  // empty: of no GPU that is known
  EventKind kind = EventKind::xid;
  EventSource source = EventSource::driver;
  TimePoint at = {};
  std::optional<std::uint32_t> xid = {};  // of EventKind::xid
  std::optional<std::uint32_t> pid = {};  // whose process it hit, where the source tells
  std::string text = {};                  // the source's own words, if it has any

  friend bool operator==(const DeviceEvent&, const DeviceEvent&) = default;
};
BOOST_DESCRIBE_STRUCT(DeviceEvent, (), (device, kind, source, at, xid, pid, text))

// How many events of one GPU are passed on: a GPU that is dying can have thousands in a second.

// `burst` at once, and `each_second` from then on. Pure state; as many keys as its owner uses.
class EventLimit {
 public:
  EventLimit(double burst, double each_second) : burst_(burst), each_second_(each_second) {}

  // False: too many; it is counted.
  bool admit(const DeviceId&, TimePoint now);

  // What was not admitted, as one event for each GPU: as soon as one would be admitted again, and
  // then counted from 0. Called from time to time.
  std::vector<DeviceEvent> take_refused(EventSource, TimePoint now);
  // There is something that take_refused() has still to tell.
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
