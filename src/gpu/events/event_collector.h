// Takes the events of all sources: gives each the name of its GPU, limits their number, and
// publishes each once, however many sources reported it. Thread: io.
//
// The driver and the kernel's log both report most Xids, and each some that the other does not. The
// two accounts are matched one to one within five seconds. If the kernel's line says that it is
// worse than the driver's event said, the line is an event of its own. New events go into the event
// log: the last 4096 events, numbered, of one epoch, which is a daemon's run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "gpu/device/event.h"
#include "gpu/device/event_rate_limiter.h"
#include "gpu/events/event_deduplicator.h"
#include "gpu/events/event_log.h"
#include "gpu/events/kernel_log.h"

namespace gpuyard::events {

class EventCollector {
 public:
  struct Listener {
    std::function<void(const DeviceEvent&)> on_event;  // new
    // The other source reports an event that on_event got; it may know which process was hit, and
    // have the driver's words.
    std::function<void(const DeviceEvent&)> on_duplicate_event;
  };

  // Passes new events to the event log, the log and the listener.
  EventCollector(Loop&, EventLog&, Listener);

  // Learns the names of the GPUs. GPUs of earlier inventories keep the names they had.
  void on_inventory(const Inventory&);

  void on_driver_event(const DeviceEvent&);
  void on_kernel_xid(const KernelXid&, TimePoint written);
  // Records that a source lost events.
  void on_events_lost(const std::string& what);

  const EventDrops& drops() const { return drops_; }

  static constexpr std::size_t kMaxGpus = 256;
  // The limits of one source: of all notes of one GPU, and of each number that is more than a note.
  static constexpr double kBurst = 128;
  static constexpr double kEventsPerSecond = 32;

 private:
  struct GpuName {
    std::optional<std::uint32_t> index;  // empty: another GPU has it now
    std::string pci_address;
  };

  void accept(const DeviceEvent&, const std::string& where);
  void publish(const DeviceEvent&, const std::string& where);
  void record(const DeviceEvent&, const std::string& where);
  void publish_dropped();
  std::uint64_t& drop_count(EventSource);

  Loop& loop_;
  EventLog& event_log_;
  Listener listener_;
  std::map<DeviceId, GpuName> names_;
  std::map<EventSource, EventRateLimiter> rate_limiters_;
  EventDrops drops_;
  EventDeduplicator deduplicator_;
  Subscription dropped_timer_;
};

// Returns a sentence for people: "Xid 79: The GPU has fallen off the bus."
std::string sentence_of(const DeviceEvent&);

}  // namespace gpuyard::events
