// Calls back once when something that expires or is revoked has ended.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/lifetime.h"
#include "base/loop.h"

namespace gpuyard {

// Thread: io. `Key` names one of the things.
template <class Key>
class EndWatch {
 public:
  static constexpr Duration kPollInterval = std::chrono::milliseconds(250);

  // `is_valid`: whether it has not ended yet. The loop outlives the watch.
  EndWatch(Loop& loop, std::function<bool(const Key&)> is_valid)
      : loop_(loop), is_valid_(std::move(is_valid)) {}
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  // Calls `on_ended` once: inside notify_ended(), or within kPollInterval, also if the clock jumps.
  Subscription subscribe(Key key, std::function<void()> on_ended) {
    const std::uint64_t number = ++next_;
    watchers_.emplace(number, Watcher{std::move(key), std::move(on_ended)});
    schedule_poll();
    return Subscription(lifetime_.guard([this, number] { watchers_.erase(number); }));
  }

  void notify_ended() {
    std::vector<std::function<void()>> callbacks;
    std::erase_if(watchers_, [&](auto& one) {
      if (is_valid_(one.second.key)) return false;
      callbacks.push_back(std::move(one.second.on_ended));
      return true;
    });
    for (const auto& on_ended : callbacks) on_ended();
  }

 private:
  struct Watcher {
    Key key;
    std::function<void()> on_ended;
  };

  void schedule_poll() {
    if (poll_timer_ || watchers_.empty()) return;
    poll_timer_ = loop_.call_after(kPollInterval, [this] {
      poll_timer_.reset();
      notify_ended();
      schedule_poll();
    });
  }

  Loop& loop_;
  const std::function<bool(const Key&)> is_valid_;
  std::map<std::uint64_t, Watcher> watchers_;
  std::uint64_t next_ = 0;
  Subscription poll_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard
