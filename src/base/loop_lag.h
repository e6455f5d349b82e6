// The delay of the loop's callbacks.
#pragma once

#include <chrono>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/loop.h"

namespace gpuyard {

// Measures how late the loop runs, because a callback that blocks delays everything else: it asks
// to be called at fixed moments, and records how much later each call comes.
// Thread: the loop's.
class LoopLag {
 public:
  explicit LoopLag(Loop& loop) : loop_(loop) { schedule(); }

  const Histogram& histogram() const { return histogram_; }

  // The time between two measurements. Four wake-ups a second cost nothing that can be measured,
  // and no stall longer than this is missed.
  static constexpr Duration kInterval = std::chrono::milliseconds(250);

 private:
  void schedule() {
    const TimePoint due = loop_.now() + kInterval;
    timer_ = loop_.call_at(due, [this, due] {
      histogram_.add(loop_.now() - due);
      schedule();
    });
  }

  Loop& loop_;
  Histogram histogram_;
  Subscription timer_;
};

}  // namespace gpuyard
