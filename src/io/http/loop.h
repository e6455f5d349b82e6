// The program's loop: timers, descriptors, posted work, signals and every connection, on the one
// thread that calls run(). Knows no HTTP and no GPU; Asio stays behind it.
#pragma once

#include <memory>
#include <vector>

#include "base/loop.h"

namespace gpuyard::http {

// Timers run on BootClock, so a deadline that passed while the machine slept fires on waking, and
// they fire in the order of their moments, equal ones in the order they were set.
class IoLoop final : public Loop {
 public:
  IoLoop();
  ~IoLoop() override;
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  // Runs until stop(); a stop() before run() makes it return at once.
  void run();
  // Thread: any.
  void stop();
  // Runs what is ready, without waiting.
  void poll();
  // Runs until is_done() holds (asked after each piece of work) or `timeout` has passed; says
  // which.
  bool run_until(const std::function<bool()>& is_done, Duration timeout);

  TimePoint now() const override { return BootClock::now(); }
  WallTime wall() const override { return wall_now(); }
  void post(std::function<void()> work) override;
  Subscription call_at(TimePoint when, std::function<void()> work) override;
  Subscription watch(int fd, std::function<void()> on_readable) override;

  // Runs `on_signal` on the loop for each arrival of one of `numbers`, instead of its default
  // action.
  Subscription watch_signals(const std::vector<int>& numbers, std::function<void(int)> on_signal);

  // For src/io/http alone; defined in loop_core.h, which includes Asio.
  struct Core;
  Core& core() { return *core_; }

 private:
  bool logged_watch_failure_ = false;
  std::unique_ptr<Core> core_;
};

}  // namespace gpuyard::http
