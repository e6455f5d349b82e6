// A deadline that moves many times a second. The timer is set again only when it rings before the
// deadline, or when the deadline moves to before it. Knows no connection.
#pragma once

#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/loop.h"

namespace gpuyard::http {

// Thread: io. REQUIRES: the loop outlives it.
class Deadline {
 public:
  // `on_missed` is called once for each set() that is not followed by another in time.
  Deadline(Loop& loop, std::function<void()> on_missed)
      : loop_(loop), on_missed_(std::move(on_missed)) {}

  void set(Duration from_now) {
    missed_ = false;
    expires_at_ = loop_.now() + from_now;
    if (expires_at_ < alarm_at_) set_alarm();
  }
  bool is_missed() const { return missed_; }

 private:
  void set_alarm() {
    alarm_at_ = expires_at_;
    alarm_ = loop_.call_at(expires_at_, [this] { on_alarm(); });
  }
  void on_alarm() {
    alarm_at_ = TimePoint::max();
    if (loop_.now() < expires_at_) return set_alarm();
    missed_ = true;
    on_missed_();
  }

  Loop& loop_;
  std::function<void()> on_missed_;
  bool missed_ = false;
  TimePoint expires_at_ = TimePoint::max();
  TimePoint alarm_at_ = TimePoint::max();
  Subscription alarm_;
};

}  // namespace gpuyard::http
