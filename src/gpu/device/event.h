// What happens to a GPU, as its driver or the kernel's log tells it: one moment, not a state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <boost/describe.hpp>

#include "base/clock.h"
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

}  // namespace gpuyard
