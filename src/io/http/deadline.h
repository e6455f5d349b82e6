// A deadline that moves many times a second. The timer follows only when it rings too early, or
// when the deadline moves to before it. Knows no connection.
#pragma once

#include <functional>
#include <utility>

#include "base/loop.h"

namespace gpuyard::http {

class Deadline {
 public:
  // `missed` is called once for each set() that is not followed by another in time.
  Deadline(Loop& loop, std::function<void()> missed)
      : loop_(loop), missed_call_(std::move(missed)) {}

  void set(Duration from_now) {
    missed_ = false;
    when_ = loop_.now() + from_now;
    if (when_ < alarm_at_) set_alarm();
  }
  bool missed() const { return missed_; }

 private:
  void set_alarm() {
    alarm_at_ = when_;
    alarm_ = loop_.call_at(when_, [this] { ring(); });
  }
  void ring() {
    alarm_at_ = TimePoint::max();
    if (loop_.now() < when_) return set_alarm();
    missed_ = true;
    missed_call_();
  }

  Loop& loop_;
  std::function<void()> missed_call_;
  bool missed_ = false;
  TimePoint when_ = TimePoint::max();
  TimePoint alarm_at_ = TimePoint::max();
  Subscription alarm_;
};

}  // namespace gpuyard::http
