#include "io/http/timer_queue.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

namespace gpuyard::http {
namespace {

using boost::system::error_code;

int open_timer() {
  const int fd = ::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "timerfd_create");
  return fd;
}

timespec to_timespec(TimePoint when) {
  const auto since_boot = when.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
  return timespec{seconds.count(), (since_boot - seconds).count()};
}

}  // namespace

TimerQueue::TimerQueue(asio::io_context& io) : descriptor_(io, open_timer()) {
  wait();
}

TimerQueue::Key TimerQueue::add(TimePoint when, std::function<void()> work) {
  const Key key{std::max(when, BootClock::now()), next_++};
  timers_.emplace(key, std::move(work));
  arm();
  return key;
}

void TimerQueue::wait() {
  // `this` lives as long as the descriptor, whose end cancels the wait.
  descriptor_.async_wait(asio::posix::descriptor_base::wait_read, [this](const error_code& error) {
    if (error) return;
    fire();
    wait();
  });
}

void TimerQueue::fire() {
  std::uint64_t expirations = 0;
  // The result is ignored: the clock decides which timers are due.
  [[maybe_unused]] const ssize_t got =
      ::read(descriptor_.native_handle(), &expirations, sizeof expirations);
  armed_ = TimePoint::max();
  const TimePoint now = BootClock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    auto timer = timers_.extract(timers_.begin());
    timer.mapped()();
  }
  arm();
}

// Only ever moves the alarm earlier; one that comes too early finds nothing due and arms the next.
void TimerQueue::arm() {
  if (timers_.empty() || timers_.begin()->first.first >= armed_) return;
  armed_ = timers_.begin()->first.first;
  itimerspec alarm{};
  alarm.it_value = to_timespec(armed_);
  ::timerfd_settime(descriptor_.native_handle(), TFD_TIMER_ABSTIME, &alarm, nullptr);
}

}  // namespace gpuyard::http
