// Takes the events of all sources: gives each the name of its GPU, limits their number, and tells
// each once, however many sources told it. Lives on the io thread.
//
// The driver and the kernel's log both tell of most Xids, and each of some that the other does not.
// The two accounts are matched one to one within five seconds. If the kernel's line says that it is
// worse than the driver's event said, the line is an event of its own. New events go into the
// journal: the last 4096 events, numbered, of one epoch, which is a daemon's life.
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
  std::uint64_t sequence = 0;  // from 1, without gaps; set by the journal
  TimePoint at;                // when it happened
  WallTime wall;               // the same moment, for people
  DeviceId device;             // empty: no GPU, or an unknown one
  std::optional<std::uint32_t> index;
  std::string kind;  // a word: "xid", "ecc_uncorrected", "events_lost", ...
  std::optional<std::uint32_t> xid;
  Severity severity = Severity::note;
  std::string text;  // a sentence for people

  friend bool operator==(const Event&, const Event&) = default;
};

class Journal {
 public:
  Journal();

  // A random word that differs in every daemon: a sequence number is valid only with it.
  const std::string& epoch() const { return epoch_; }

  // Numbers the event, keeps it and passes it to the listener. Cuts a text beyond kMostText. The
  // listener must not call add().
  const Event& add(Event);
  // Sets the one listener, which gets every event as it is added.
  void on_added(std::function<void(const Event&)> told) { told_ = std::move(told); }

  // Returns the sequence of the newest event; 0 if there was none.
  std::uint64_t last() const { return last_; }
  // True if every event after this one is still kept. False for a sequence that does not exist yet.
  bool remembers_since(std::uint64_t sequence) const;
  // Visits all kept events after `sequence`, oldest first.
  template <class Visit>
  void each_since(std::uint64_t sequence, Visit visit) const {
    for (auto event = first_after(sequence); event != kept_.end(); ++event) visit(*event);
  }

  static constexpr std::size_t kKept = 4096;
  static constexpr std::size_t kMostText = 1024;

 private:
  std::deque<Event>::const_iterator first_after(std::uint64_t sequence) const;

  std::string epoch_;
  std::deque<Event> kept_;
  std::uint64_t last_ = 0;
  std::function<void(const Event&)> told_ = [](const Event&) {};
};

// The driver and the kernel's log both tell of most Xids; this decides which account is new. Pure:
// it is told the time.

class Dedupe {
 public:
  // Returns how bad the Xid was by the account of the other source, if that source already told of
  // this Xid of this GPU; nothing if the event is new. Matches one to one: of three in a row, told
  // by both sources, three are new. `now` is when the event was heard, which no source's clock can
  // shift.
  std::optional<Severity> other_account(const DeviceEvent&, TimePoint now);

  // The longest time between the two accounts of one Xid.
  static constexpr Duration kWindow = std::chrono::seconds(5);
  // The most events that wait for the second account; beyond that the oldest is dropped.
  static constexpr std::size_t kMostWaiting = 4096;

 private:
  struct Waiting {
    DeviceId device;
    std::uint32_t xid;
    EventSource source;
    Severity severity;
    TimePoint heard;
  };
  std::deque<Waiting> waiting_;  // oldest first
};

class Intake {
 public:
  struct Listener {
    std::function<void(const DeviceEvent&)> on_event;  // new
    // The other source tells of an event that on_event got; it may know which process was hit, and
    // have the driver's words.
    std::function<void(const DeviceEvent&)> on_echo;
  };

  // Passes new events to the journal, the log and the listener.
  Intake(Loop&, Journal&, Listener);

  // Learns the names of the GPUs. GPUs of earlier fleets keep the names they had.
  void on_fleet(const Fleet&);

  void on_driver_event(const DeviceEvent&);
  void on_kernel_xid(const KernelXid&, TimePoint written);
  // Records that a source lost events.
  void on_lost(const std::string& what);

  const EventDrops& drops() const { return drops_; }

  static constexpr std::size_t kMostGpus = 256;
  // From one source: of all notes of one GPU, and of each number that is more than a note.
  static constexpr double kBurst = 128;
  static constexpr double kEachSecond = 32;

 private:
  struct Name {
    std::optional<std::uint32_t> index;  // empty: another GPU has it now
    std::string pci_address;
  };

  void take(const DeviceEvent&, const std::string& where);
  void tell(const DeviceEvent&, const std::string& where);
  void record(const DeviceEvent&, const std::string& where);
  void tell_refused();
  std::uint64_t& dropped(EventSource);

  Loop& loop_;
  Journal& journal_;
  Listener listener_;
  std::map<DeviceId, Name> names_;
  std::map<EventSource, EventLimit> limits_;
  EventDrops drops_;
  Dedupe dedupe_;
  Subscription refused_timer_;
};

// Returns a sentence for people: "Xid 79: The GPU has fallen off the bus."
std::string sentence_of(const DeviceEvent&);

}  // namespace gpuyard::events
