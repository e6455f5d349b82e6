// Takes the events of all sources: gives each the name of its GPU, limits their number, and
// publishes each once, however many sources reported it. Lives on the io thread.
//
// The driver and the kernel's log both report most Xids, and each some that the other does not. The
// two accounts are matched one to one within five seconds. If the kernel's line says that it is
// worse than the driver's event said, the line is an event of its own. New events go into the event
// log: the last 4096 events, numbered, of one epoch, which is a daemon's run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "gpu/device/event.h"
#include "gpu/events/kernel_log.h"

namespace gpuyard::events {

// The daemon's memory of events: the last few thousand, numbered, for present listeners and for
// clients that come back. Knows no source and no socket. Lives on the io thread.

struct Event {
  std::uint64_t sequence = 0;  // from 1, without gaps; set by the event log
  TimePoint at;                // when it happened
  WallTime wall;               // the same moment, for people
  DeviceId device;             // empty: no GPU, or an unknown one
  std::optional<std::uint32_t> index;
  std::string kind;  // a word: "xid", "ecc_uncorrected", "events_lost", ...
  std::optional<std::uint32_t> xid;
  EventSeverity severity = EventSeverity::note;
  std::string text;  // a sentence for people

  friend bool operator==(const Event&, const Event&) = default;
};

class EventLog {
 public:
  EventLog();

  // A random word that differs in every daemon: a sequence number is valid only with it.
  const std::string& epoch() const { return epoch_; }

  // Numbers the event, keeps it and passes it to the listener. Cuts a text beyond kMaxTextBytes.
  // The listener must not call add().
  const Event& add(Event);
  // Sets the one listener, which gets every event as it is added.
  void set_listener(std::function<void(const Event&)> listener) { listener_ = std::move(listener); }

  // Returns the sequence of the newest event; 0 if there was none.
  std::uint64_t last_sequence() const { return last_sequence_; }
  // True if every event after this one is still kept. False for a sequence that does not exist yet.
  bool contains_since(std::uint64_t sequence) const;
  // Visits all kept events after `sequence`, oldest first.
  template <class Visit>
  void each_since(std::uint64_t sequence, Visit visit) const {
    for (auto event = first_after(sequence); event != events_.end(); ++event) visit(*event);
  }

  static constexpr std::size_t kMaxEvents = 4096;
  static constexpr std::size_t kMaxTextBytes = 1024;

 private:
  std::deque<Event>::const_iterator first_after(std::uint64_t sequence) const;

  std::string epoch_;
  std::deque<Event> events_;
  std::uint64_t last_sequence_ = 0;
  std::function<void(const Event&)> listener_ = [](const Event&) {};
};

// The driver and the kernel's log both report most Xids; this decides which account is new. Pure
// state: the caller gives the time.

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
