// Where events of all sources meet: each gets the name of its GPU, is bounded, and is told once,
// however many sources told it. Lives on the io thread.
//
// The driver and the kernel's log both tell of most Xids, and each of some that the other does not.
// The two accounts are matched one to one within five seconds. What is new goes into the journal:
// the last 4096 events, numbered, of one epoch, which is a daemon's life.
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
#include "device/event.h"
#include "events/kernel_log.h"

namespace gpuyard::events {

// The daemon's memory of what happened: the last few thousand events, numbered, for whoever listens
// now and for whoever comes back. Knows no source and no socket. Lives on the io thread.

struct Event {
  std::uint64_t sequence = 0;  // from 1, without gaps; the journal's to give
  TimePoint at;                // when it happened
  WallTime wall;               // the same moment, for people
  DeviceId device;             // empty: of no GPU, or of none that is known
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

  // A random word, another one in every daemon: a sequence number means something only with it.
  const std::string& epoch() const { return epoch_; }

  // Numbers the event, keeps it and tells it. A text beyond kMostText is cut. The listener must not
  // add.
  const Event& add(Event);
  // One listener, told every event as it is added.
  void on_added(std::function<void(const Event&)> told) { told_ = std::move(told); }

  // Of the newest event; 0: there was none.
  std::uint64_t last() const { return last_; }
  // Every event after this one is still here. False for a sequence that has not been given yet.
  bool remembers_since(std::uint64_t sequence) const;
  // Visits all that is kept after `sequence`, oldest first.
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

// The driver and the kernel's log both tell of most Xids: which of them tells news. Pure: it is
// told the time.

class Dedupe {
 public:
  // False: the other source told of this Xid of this GPU already. One to one: of three in a row,
  // told by both, three are new. `now` is when it was heard, which no clock of a source can shift.
  bool is_new(const DeviceEvent&, TimePoint now);

  // The sources tell of the same Xid within so long.
  static constexpr Duration kWindow = std::chrono::seconds(5);
  // So many wait for their double; beyond that the oldest has none.
  static constexpr std::size_t kMostWaiting = 4096;

 private:
  struct Waiting {
    DeviceId device;
    std::uint32_t xid;
    EventSource source;
    TimePoint heard;
  };
  std::deque<Waiting> waiting_;  // by time
};

class Intake {
 public:
  struct Listener {
    std::function<void(const DeviceEvent&)> on_event;  // new
    // What on_event told is told by the other source too, which may know whose process it hit.
    std::function<void(const DeviceEvent&)> on_echo;
  };

  // What is new goes into the journal, into the log and to the listener.
  Intake(Loop&, Journal&, Listener);

  // By which names GPUs go. Those of earlier fleets are still known by the names they had.
  void on_fleet(const Fleet&);

  void on_driver_event(const DeviceEvent&);
  void on_kernel_xid(const KernelXid&, TimePoint written);
  // What a source could not tell.
  void on_lost(const std::string& what);

  static constexpr std::size_t kMostGpus = 256;
  static constexpr double kBurst = 128;  // events of one GPU from one source
  static constexpr double kEachSecond = 32;

 private:
  struct Name {
    std::uint32_t index;
    std::string pci_address;
  };

  void take(const DeviceEvent&, const std::string& where);
  void tell(const DeviceEvent&, const std::string& where);
  void tell_refused();

  Loop& loop_;
  Journal& journal_;
  Listener listener_;
  std::map<DeviceId, Name> names_;
  std::map<EventSource, EventLimit> limits_;
  Dedupe dedupe_;
  Subscription refused_timer_;
};

// What a person reads of it: "Xid 79: The GPU has fallen off the bus."
std::string sentence_of(const DeviceEvent&);
Severity severity_of(const DeviceEvent&);

}  // namespace gpuyard::events
