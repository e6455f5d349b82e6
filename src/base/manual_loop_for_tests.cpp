#include "base/manual_loop_for_tests.h"

#include <algorithm>

namespace gpuyard {

ManualLoop::~ManualLoop() {
  posted_.clear();
  while (!watches_.empty()) watches_.extract(watches_.begin());
  while (!timers_.empty()) timers_.extract(timers_.begin());
}

void ManualLoop::post(std::function<void()> work) {
  posted_.push_back(std::move(work));
}

Subscription ManualLoop::call_at(TimePoint when, std::function<void()> work) {
  const TimerKey key{std::max(when, now_), next_++};
  timers_.emplace(key, std::move(work));
  return Subscription([this, key] { timers_.erase(key); });
}

Subscription ManualLoop::watch(int fd, std::function<void()> readable) {
  watches_[fd] = std::move(readable);
  return Subscription([this, fd] { watches_.erase(fd); });
}

void ManualLoop::advance(Duration duration) {
  const TimePoint end = now_ + duration;
  for (;;) {
    for (auto& work : std::exchange(posted_, {})) work();
    if (!posted_.empty()) continue;
    if (timers_.empty() || timers_.begin()->first.first > end) break;
    auto timer = timers_.extract(timers_.begin());
    now_ = std::max(now_, timer.key().first);
    timer.mapped()();
  }
  now_ = std::max(now_, end);
}

void ManualLoop::make_readable(int fd) {
  if (const auto watch = watches_.find(fd); watch != watches_.end()) {
    const auto readable = watch->second;  // it may end its own subscription
    readable();
  }
}

}  // namespace gpuyard
