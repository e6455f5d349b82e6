// A Loop for tests: time stands still until advance() moves it, and then every timer that falls due
// runs in order. Descriptors are "readable" when the test says so.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/loop.h"

namespace gpuyard {

class ManualLoop final : public Loop {
 public:
  ManualLoop() = default;
  ManualLoop(const ManualLoop&) = delete;
  ManualLoop& operator=(const ManualLoop&) = delete;
  // Drops work that may be the last owner of an object with subscriptions here.
  ~ManualLoop() override;

  TimePoint now() const override { return now_; }
  WallTime wall() const override {
    return kWallStart + wall_step_ +
           std::chrono::duration_cast<std::chrono::milliseconds>(now_ - kStart);
  }
  void post(std::function<void()> work) override;
  Subscription call_at(TimePoint when, std::function<void()> work) override;
  Subscription watch(int fd, std::function<void()> readable) override;

  // Runs what is posted, then moves time forward, stopping at each timer on the way.
  void advance(Duration);
  void run_posted() { advance(Duration::zero()); }
  void make_readable(int fd);
  // Lets time pass inside a callback, so that timers due meanwhile run late.
  void stall(Duration by) { now_ += by; }
  // Sets the wall clock forward or back.
  void step_wall(std::chrono::milliseconds by) { wall_step_ += by; }
  std::size_t timers() const { return timers_.size(); }

 private:
  using TimerKey = std::pair<TimePoint, std::uint64_t>;

  static constexpr TimePoint kStart{std::chrono::hours(1)};
  static constexpr WallTime kWallStart{std::chrono::milliseconds(1'700'000'000'000)};

  TimePoint now_ = kStart;
  std::chrono::milliseconds wall_step_{0};
  std::uint64_t next_ = 0;
  std::map<TimerKey, std::function<void()>> timers_;
  std::map<int, std::function<void()>> watches_;
  std::vector<std::function<void()>> posted_;
};

}  // namespace gpuyard
