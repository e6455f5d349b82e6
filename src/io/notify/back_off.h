// How often and how long a sink is tried, and what is kept for it. Knows no sink.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "base/clock.h"

namespace gpuyard::notify {

inline constexpr std::size_t kMaxQueuedNotifications = 1000;  // notifications for one sink
inline constexpr Duration kInitialBackOff = std::chrono::seconds(1);
inline constexpr Duration kMaxBackOff = std::chrono::minutes(5);
inline constexpr Duration kDeliveryTimeout = std::chrono::hours(6);  // from when it was queued
// The longest wait after a failure before another notification is tried, however long the failed
// one waits. The next alert thus finds out that a sink has come back, and a fault of one
// notification delays no other.
inline constexpr Duration kMaxFailurePause = std::chrono::seconds(5);
// The longest wait that a receiver may ask for.
inline constexpr Duration kMaxRetryAfter = std::chrono::minutes(15);
// This many failures in a row mean that the sink is down, not that a notification is wrong.
inline constexpr unsigned kDownThreshold = 3;

// The wait after that many failures. It doubles from kInitialBackOff to kMaxBackOff;
// `random` (0 to 1) chooses between half and all of it, so that many nodes do not come back at the
// same moment.
Duration back_off(unsigned failures, double random);

// Allows `per_minute` tries at once after a quiet minute; then one each time a try's share of a
// minute has passed.
class RateLimit {
 public:
  explicit RateLimit(unsigned per_minute)
      : interval_(Duration(std::chrono::minutes(1)) / per_minute),
        burst_(interval_ * (per_minute - 1)) {}

  // The moment of the next allowed try; one in the past means now.
  TimePoint free_at() const { return spent_until_ - burst_; }
  void acquire(TimePoint now) { spent_until_ = std::max(spent_until_, now) + interval_; }

 private:
  Duration interval_;
  Duration burst_;
  TimePoint spent_until_{};
};

}  // namespace gpuyard::notify
