// How late the loop is: what a callback that blocks does to everybody else.
#pragma once

#include "base/histogram.h"
#include "base/loop.h"

namespace gpuyard {

// Asks to be called at fixed moments and notes how much later that happens. Lives on the loop.
class LoopLag {
 public:
  explicit LoopLag(Loop& loop) : loop_(loop) { expect(); }

  const Histogram& histogram() const { return histogram_; }

  // Four wake-ups a second cost nothing that can be measured, and no stall longer than this is
  // missed.
  static constexpr Duration kPeriod = std::chrono::milliseconds(250);

 private:
  void expect() {
    const TimePoint due = loop_.now() + kPeriod;
    beat_ = loop_.call_at(due, [this, due] {
      histogram_.add(loop_.now() - due);
      expect();
    });
  }

  Loop& loop_;
  Histogram histogram_;
  Subscription beat_;
};

}  // namespace gpuyard
