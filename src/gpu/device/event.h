// An event of a GPU, from its driver or the kernel's log: one moment, not a state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <boost/describe.hpp>

#include "base/clock.h"
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

}  // namespace gpuyard
