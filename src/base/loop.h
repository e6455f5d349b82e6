// The interface between the rooms and their thread: time, timers, readable descriptors and work
// posted from other threads. The program runs one such loop, on the io thread; a test runs a
// ManualLoop, whose time only the test moves. Knows no GPU and no socket library.
#pragma once

#include <functional>
#include <utility>

#include "base/clock.h"

namespace gpuyard {

// A timer or a watch that ends with its owner. REQUIRES: destroyed on the loop's thread, also
// inside its own callback.
class [[nodiscard]] Subscription {
 public:
  Subscription() = default;
  explicit Subscription(std::function<void()> cancel) : cancel_(std::move(cancel)) {}
  Subscription(Subscription&& other) noexcept : cancel_(std::exchange(other.cancel_, nullptr)) {}
  Subscription& operator=(Subscription&& other) noexcept {
    if (this != &other) {
      reset();
      cancel_ = std::exchange(other.cancel_, nullptr);
    }
    return *this;
  }
  ~Subscription() { reset(); }

  void reset() {
    if (auto cancel = std::exchange(cancel_, nullptr)) cancel();
  }
  explicit operator bool() const { return cancel_ != nullptr; }

 private:
  std::function<void()> cancel_;
};

// Thread: the loop's own; any, for post(). A callback never runs inside the call that registers it.
class Loop {
 public:
  virtual ~Loop() = default;
  virtual TimePoint now() const = 0;
  virtual WallTime wall() const = 0;
  virtual void post(std::function<void()> work) = 0;
  // Runs once. A moment in the past means as soon as possible.
  virtual Subscription call_at(TimePoint when, std::function<void()> work) = 0;
  // Runs whenever fd is readable or closed by its peer, until the subscription ends. The caller
  // keeps fd open until then.
  virtual Subscription watch(int fd, std::function<void()> readable) = 0;

  Subscription call_after(Duration delay, std::function<void()> work) {
    return call_at(now() + delay, std::move(work));
  }
};

}  // namespace gpuyard
