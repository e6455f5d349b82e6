// What IoLoop is made of, for the files of this folder that run coroutines on it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "http/asio.h"
#include "http/loop.h"
#include "http/turns.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

namespace gpuyard::http {

// All timers of a loop over one timerfd. Not Asio's timers: those count CLOCK_MONOTONIC, which
// stands still in suspend, and leave the order of equal deadlines open.
class TimerQueue {
 public:
  using Key = std::pair<TimePoint, std::uint64_t>;

  explicit TimerQueue(asio::io_context& io);
  Key add(TimePoint when, std::function<void()> work);
  void erase(const Key& key) { timers_.erase(key); }

 private:
  void wait();
  void fire();
  void arm();

  asio::posix::stream_descriptor descriptor_;
  std::map<Key, std::function<void()>> timers_;
  std::uint64_t next_ = 0;
  TimePoint armed_ = TimePoint::max();
};

struct IoLoop::Core {
  Core() : guard(asio::make_work_guard(io)), timers(std::make_shared<TimerQueue>(io)) {}

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard;
  std::shared_ptr<TimerQueue> timers;  // shared for the weak_ptr of its subscriptions
  Turns turns{io};
};

}  // namespace gpuyard::http
