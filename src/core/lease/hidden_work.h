// Finds use of a GPU that no process list shows: work of a container that cannot be seen, and work
// under a driver that lists no processes. Memory alone is no evidence of it: a small model fits
// into what a driver itself may use. Pure state.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"

namespace gpuyard::lease {

// One reading of how busy a GPU is.
struct Activity {
  TimePoint taken_at;
  bool busy = false;
  std::string text = {};  // the reading that shows it: "97 % utilisation"
};

class HiddenWork {
 public:
  // Fewer busy readings in a row than this may be the end of known work, or a monitor's query.
  static constexpr unsigned kMinBusyReadings = 3;
  // The GPU is idle again after this time without a busy reading. Shorter gaps are pauses of the
  // same work.
  static constexpr Duration kIdleTimeout = std::chrono::seconds(10);

  // Accepts a reading of an unleased GPU. The same reading twice counts once. If the first reading
  // of all is busy, it is enough: what began before cannot be known.
  void update(const Activity&);
  // The GPU is leased, or a listed process uses it: its activity is accounted for.
  void mark_accounted();
  // Returns the reading that showed the use; nothing if there is none.
  std::optional<std::string> evidence() const;

 private:
  std::optional<TimePoint> last_reading_at_;
  TimePoint last_busy_at_{};
  unsigned busy_readings_ = 0;
  std::string text_;
};

}  // namespace gpuyard::lease
