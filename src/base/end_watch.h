// Calls back once when something that expires or is revoked has ended.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/loop.h"

namespace gpuyard {

// Lives on the loop's thread. `What` names one of the things.
template <class What>
class EndWatch {
 public:
  static constexpr Duration kLook = std::chrono::milliseconds(250);

  // `good`: whether it has not ended yet. The loop outlives the watch.
  EndWatch(Loop& loop, std::function<bool(const What&)> good)
      : loop_(loop), good_(std::move(good)) {}
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  // Calls `ended` once: inside tell_ended(), or within kLook, also if the clock jumps.
  Subscription on_end(What what, std::function<void()> ended) {
    const std::uint64_t number = ++next_;
    watchers_.emplace(number, Watcher{std::move(what), std::move(ended)});
    look_later();
    return Subscription(here_.guard([this, number] { watchers_.erase(number); }));
  }

  void tell_ended() {
    std::vector<std::function<void()>> told;
    std::erase_if(watchers_, [&](auto& one) {
      if (good_(one.second.what)) return false;
      told.push_back(std::move(one.second.ended));
      return true;
    });
    for (const auto& ended : told) ended();
  }

 private:
  struct Watcher {
    What what;
    std::function<void()> ended;
  };

  void look_later() {
    if (look_ || watchers_.empty()) return;
    look_ = loop_.call_after(kLook, [this] {
      look_.reset();
      tell_ended();
      look_later();
    });
  }

  Loop& loop_;
  const std::function<bool(const What&)> good_;
  std::map<std::uint64_t, Watcher> watchers_;
  std::uint64_t next_ = 0;
  Subscription look_;
  Lifetime here_;
};

}  // namespace gpuyard
