// The daemon's memory of what happened: the last few thousand events, numbered, for whoever listens
// now and for whoever comes back. Knows no source and no socket. Lives on the io thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "device/event.h"

namespace gpuyard::events {

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

}  // namespace gpuyard::events
