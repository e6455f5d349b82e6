// Numbers the daemon's events and passes them to their one listener, which keeps them. Knows no
// source and no socket.
#pragma once

#include <cstddef>
#include <cstdint>
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

  // Numbers the event, passes it to the listener and returns it. Cuts a text beyond kMaxTextBytes.
  // The listener must not call add().
  Event add(Event);
  // Sets the one listener, which gets every event as it is added.
  void set_listener(std::function<void(const Event&)> listener) { listener_ = std::move(listener); }

  static constexpr std::size_t kMaxTextBytes = 1024;

 private:
  std::string epoch_;
  std::uint64_t last_sequence_ = 0;
  std::function<void(const Event&)> listener_ = [](const Event&) {};
};

}  // namespace gpuyard::events
