// Decides when the polling of an idle GPU is paused, because the kernel never suspends a GPU that
// is read every second. Pure state: the caller gives the time and the facts about the GPU.
//
//   polled -- idle for kIdleBeforePause --> paused -- the kernel suspends it --> asleep
//    ^  ^                                     |                                    |
//    |  +-- one read after the pause ---------+                                    |
//    +-- it is needed, or another program has resumed it --------------------------+
#pragma once

#include <optional>

#include "base/clock.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::telemetry {

// True if the readings show that nothing computes on the GPU. A GPU whose use is unknown is not
// idle.
bool has_no_work(const Sample&);

class IdleSuspend {
 public:
  struct Facts {
    std::optional<Duration> suspend_delay;  // nothing: the kernel does not suspend it
    bool suspended = false;
    bool needed = false;  // leased, or an alert about it is firing
    bool idle = false;    // by its newest readings
  };

  void update(const Facts&, TimePoint now);

  bool pauses_polling() const { return state_ && state_->polling_paused; }
  bool is_asleep() const { return state_ && state_->asleep_since; }
  const std::optional<RuntimeSuspend>& state() const { return state_; }

  // An idle GPU is polled for this long before a pause.
  static constexpr Duration kIdleBeforePause = std::chrono::seconds(5);
  // A pause lasts for the kernel's delay and this time. The GPU is then read once, because a
  // program may have begun to use it.
  static constexpr Duration kPauseMargin = std::chrono::seconds(5);

 private:
  std::optional<RuntimeSuspend> state_;
  std::optional<TimePoint> idle_since_;
  std::optional<TimePoint> paused_until_;
};

}  // namespace gpuyard::telemetry
