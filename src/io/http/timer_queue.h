// The timers of a loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/clock.h"
#include "io/http/asio.h"

#include <boost/asio/posix/stream_descriptor.hpp>

namespace gpuyard::http {

// All timers of a loop over one timerfd. Not Asio's timers: those count CLOCK_MONOTONIC, which
// stands still in suspend, and leave the order of equal deadlines open.
// Thread: io.
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

}  // namespace gpuyard::http
