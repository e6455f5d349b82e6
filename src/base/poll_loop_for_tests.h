// A real loop for tests that need the kernel (processes and pipes): real time, poll(), one thread.
// Part of no library.
#pragma once

#include <poll.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/mutex.h"

namespace gpuyard {

class PollLoop final : public Loop {
 public:
  TimePoint now() const override { return BootClock::now(); }
  WallTime wall() const override { return wall_now(); }
  void post(std::function<void()> work) override {
    const MutexLock lock(mutex_);
    posted_.push_back(std::move(work));
  }
  Subscription call_at(TimePoint when, std::function<void()> work) override {
    const Key key{when, next_++};
    state_->timers.emplace(key, std::move(work));
    return Subscription([weak = std::weak_ptr(state_), key] {
      if (const auto state = weak.lock()) state->timers.erase(key);
    });
  }
  Subscription watch(int fd, std::function<void()> readable) override {
    const std::uint64_t id = next_++;
    state_->watches.emplace(id, std::pair(fd, std::move(readable)));
    return Subscription([weak = std::weak_ptr(state_), id] {
      if (const auto state = weak.lock()) state->watches.erase(id);
    });
  }

  // Runs the loop until done() is true; returns false if that takes longer than `timeout`. Asks
  // done() every few milliseconds, because no descriptor may announce the change.
  bool run_until(const std::function<bool()>& done, Duration timeout) {
    const TimePoint end = now() + timeout;
    while (!done()) {
      if (now() >= end) return false;
      turn(end);
    }
    return true;
  }

 private:
  using Key = std::pair<TimePoint, std::uint64_t>;
  static constexpr Duration kPollInterval = std::chrono::milliseconds(5);

  struct State {
    std::map<Key, std::function<void()>> timers;
    std::map<std::uint64_t, std::pair<int, std::function<void()>>> watches;
  };

  std::vector<std::function<void()>> take_posted() {
    const MutexLock lock(mutex_);
    return std::exchange(posted_, {});
  }

  void turn(TimePoint end) {
    for (const auto& work : take_posted()) work();
    std::vector<pollfd> fds;
    std::vector<std::uint64_t> ids;
    for (const auto& [id, watch] : state_->watches) {
      fds.push_back({.fd = watch.first, .events = POLLIN, .revents = 0});
      ids.push_back(id);
    }
    end = std::min(end, now() + kPollInterval);
    if (!state_->timers.empty()) end = std::min(end, state_->timers.begin()->first.first);
    const auto left = std::max<std::int64_t>(0, to_milliseconds(end - now() + kPollInterval / 5));
    ::poll(fds.data(), fds.size(), static_cast<int>(left));
    for (std::size_t i = 0; i < fds.size(); ++i) {
      const auto watch = state_->watches.find(ids[i]);
      if (fds[i].revents == 0 || watch == state_->watches.end()) continue;
      const auto readable = watch->second.second;  // it may end its own subscription
      readable();
    }
    while (!state_->timers.empty() && state_->timers.begin()->first.first <= now()) {
      auto timer = state_->timers.extract(state_->timers.begin());
      timer.mapped()();
    }
  }

  Mutex mutex_;
  std::vector<std::function<void()>> posted_ GUARDED_BY(mutex_);
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::uint64_t next_ = 0;
};

}  // namespace gpuyard
