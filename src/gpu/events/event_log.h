// The daemon's memory of events: the last few thousand, numbered, for present listeners and for
// clients that come back. Knows no source and no socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "gpu/device/device.h"
#include "gpu/device/event.h"

namespace gpuyard::events {

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

// Thread: io.
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

}  // namespace gpuyard::events
