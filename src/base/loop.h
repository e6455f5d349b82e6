// The interface between the rooms and their thread: time, timers, readable descriptors and work
// posted from other threads. The program runs one such loop, on the io thread; a test runs a
// ManualLoop, whose time only the test moves. Knows no GPU and no socket library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/clock.h"

namespace gpuyard {

// A timer or a watch that ends with its owner. Destroy it on the loop's thread; destroying it
// inside its own callback is allowed.
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

// post() may be called from any thread; everything else only from the loop's own. A callback never
// runs inside the call that registers it.
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

// Makes callbacks that do nothing once their owner is gone. Make it a member of the owner,
// preferably the last one. A guarded callback may be copied and dropped on any thread, and is
// called on the owner's thread.
class Lifetime {
 public:
  template <class Callback>
  auto guard(Callback callback) const {
    return [alive = weak_token(), callback = std::move(callback)](auto&&... arguments) {
      if (!alive.expired()) callback(std::forward<decltype(arguments)>(arguments)...);
    };
  }
  // The pointer expires with the owner; for callbacks of which only a part needs the owner.
  std::weak_ptr<const char> weak_token() const { return token_; }
  // Disables the callbacks before the owner ends.
  void end() { token_.reset(); }

 private:
  std::shared_ptr<const char> token_ = std::make_shared<const char>();
};

// Measures how late the loop runs, because a callback that blocks delays everything else.

// Counts durations in the buckets that Prometheus reads.

class Histogram {
 public:
  // Upper bounds, inclusive. A longer duration counts in count() only.
  static constexpr std::array<Duration, 12> kBounds = {
      std::chrono::microseconds(250),  std::chrono::microseconds(1'000),
      std::chrono::microseconds(2500), std::chrono::milliseconds(5),
      std::chrono::milliseconds(10),   std::chrono::milliseconds(25),
      std::chrono::milliseconds(50),   std::chrono::milliseconds(100),
      std::chrono::milliseconds(250),  std::chrono::milliseconds(500),
      std::chrono::seconds(1),         std::chrono::milliseconds(2500)};

  void add(Duration value) {
    for (std::size_t i = 0; i < kBounds.size(); ++i) {
      if (value <= kBounds.at(i)) ++cumulative_counts_.at(i);
    }
    ++count_;
    sum_ += value;
  }

  // Returns how many durations were at most kBounds[bucket].
  std::uint64_t cumulative_count(std::size_t bucket) const { return cumulative_counts_.at(bucket); }
  std::uint64_t count() const { return count_; }
  Duration sum() const { return sum_; }

 private:
  std::array<std::uint64_t, kBounds.size()> cumulative_counts_{};
  std::uint64_t count_ = 0;
  Duration sum_{0};
};

// Asks to be called at fixed moments and records how much later each call comes. Lives on the loop.
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
