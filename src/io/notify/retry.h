// How often and how long a sink is tried, and what is kept for it. Knows no sink.
#pragma once

#include <cstddef>

#include "base/clock.h"

namespace gpuyard::notify {

inline constexpr std::size_t kMostQueued = 1000;  // notices for one sink; then the oldest goes
inline constexpr Duration kFirstBackOff = std::chrono::seconds(1);
inline constexpr Duration kLongestBackOff = std::chrono::minutes(5);
inline constexpr Duration kGiveUp = std::chrono::hours(6);  // from when it was queued
// However long the one that failed waits: after so long at most another is tried. So a sink that
// has come back is found out by the next alert, and what is wrong with one notice delays no other.
inline constexpr Duration kFreshPause = std::chrono::seconds(5);
inline constexpr Duration kMostPatience = std::chrono::minutes(15);  // that a receiver may ask for
// So many failures in a row mean that the sink is down, not that a notice is wrong.
inline constexpr unsigned kDown = 3;

// After so many failures: doubles from kFirstBackOff to kLongestBackOff, and of that between half
// and all, as `random` (0 to 1) says, so that many nodes do not come back at the same moment.
Duration back_off(unsigned failures, double random);

// At most so many in any minute begun with a full purse; then one whenever its share of a minute
// has passed.
class RateLimit {
 public:
  explicit RateLimit(unsigned per_minute)
      : share_(Duration(std::chrono::minutes(1)) / per_minute), burst_(share_ * (per_minute - 1)) {}

  // When the next may go; a moment in the past: now.
  TimePoint free_at() const { return spent_until_ - burst_; }
  void take(TimePoint now) { spent_until_ = std::max(spent_until_, now) + share_; }

 private:
  Duration share_;
  Duration burst_;
  TimePoint spent_until_{};
};

}  // namespace gpuyard::notify
