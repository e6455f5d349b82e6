#include "io/http/loop.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/log.h"
#include "base/unique_fd.h"
#include "io/http/loop_core.h"

#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>

namespace gpuyard::http {
namespace {

using boost::system::error_code;

// A source of callbacks that waits again after each one until it is ended.
class AsyncWatcher : public std::enable_shared_from_this<AsyncWatcher> {
 public:
  virtual ~AsyncWatcher() = default;
  virtual void wait() = 0;
  virtual void cancel() = 0;

  Subscription subscription() {
    return Subscription([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->end();
    });
  }

 protected:
  template <class... Args>
  void deliver(const error_code& error, const std::function<void(Args...)>& callback,
               Args... args) {
    if (ended_ || error) return;
    callback(args...);
    if (!ended_) wait();
  }

 private:
  void end() {
    ended_ = true;
    cancel();
  }

  bool ended_ = false;
};

// Waits on an epoll of its own around the descriptor: Asio would make the caller's descriptor
// non-blocking, and takes each descriptor only once.
class FdWatcher final : public AsyncWatcher {
 public:
  FdWatcher(asio::io_context& io, UniqueFd around, std::function<void()> on_readable)
      : descriptor_(io, around.release()), on_readable_(std::move(on_readable)) {}

  void wait() override {
    descriptor_.async_wait(asio::posix::descriptor_base::wait_read,
                           [self = shared_from_this(), this](const error_code& error) {
                             if (!error && !is_readable()) return wait();
                             deliver(error, on_readable_);
                           });
  }
  void cancel() override {
    error_code ignored;
    descriptor_.close(ignored);
  }

 private:
  // Asio can deliver the queued event of a descriptor that has been closed since to the descriptor
  // that was opened after it. Without this check a running process counted as exited.
  bool is_readable() {
    pollfd polled{descriptor_.native_handle(), POLLIN, 0};
    return ::poll(&polled, 1, 0) > 0;
  }

  asio::posix::stream_descriptor descriptor_;
  std::function<void()> on_readable_;
};

class SignalWatcher final : public AsyncWatcher {
 public:
  SignalWatcher(asio::io_context& io, const std::vector<int>& numbers,
                std::function<void(int)> on_signal)
      : set_(io), on_signal_(std::move(on_signal)) {
    for (const int number : numbers) set_.add(number);
  }

  void wait() override {
    set_.async_wait([self = shared_from_this(), this](const error_code& error, int number) {
      deliver(error, on_signal_, number);
    });
  }
  void cancel() override {
    error_code ignored;
    set_.clear(ignored);
    set_.cancel(ignored);
  }

 private:
  asio::signal_set set_;
  std::function<void(int)> on_signal_;
};

UniqueFd wrap_in_epoll(int fd) {
  UniqueFd around(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  if (around && ::epoll_ctl(around.get(), EPOLL_CTL_ADD, fd, &event) != 0) around.reset();
  return around;
}

}  // namespace

IoLoop::IoLoop() : core_(std::make_unique<Core>()) {}
IoLoop::~IoLoop() = default;

void IoLoop::run() {
  core_->io.run();
  core_->io.restart();
}

void IoLoop::stop() {
  core_->io.stop();
}
void IoLoop::poll() {
  core_->io.poll();
}

bool IoLoop::run_until(const std::function<bool()>& is_done, Duration timeout) {
  const TimePoint end = now() + timeout;
  while (!is_done()) {
    const Duration left = end - now();
    if (left <= Duration::zero() || core_->io.stopped()) return false;
    core_->io.run_one_for(left);
  }
  return true;
}

void IoLoop::post(std::function<void()> work) {
  asio::post(core_->io, std::move(work));
}

Subscription IoLoop::call_at(TimePoint when, std::function<void()> work) {
  const auto key = core_->timers->add(when, std::move(work));
  return Subscription([timers = std::weak_ptr(core_->timers), key] {
    if (const auto queue = timers.lock()) queue->erase(key);
  });
}

Subscription IoLoop::watch(int fd, std::function<void()> on_readable) {
  UniqueFd around = wrap_in_epoll(fd);
  if (!around) {
    // Logged once: a caller that has no descriptors left tries again and again.
    if (!std::exchange(logged_watch_failure_, true)) {
      log::error("cannot watch descriptor {}: {}", fd, std::generic_category().message(errno));
    }
    return {};
  }
  logged_watch_failure_ = false;
  const auto watch =
      std::make_shared<FdWatcher>(core_->io, std::move(around), std::move(on_readable));
  watch->wait();
  return watch->subscription();
}

Subscription IoLoop::watch_signals(const std::vector<int>& numbers,
                                   std::function<void(int)> on_signal) {
  const auto signals = std::make_shared<SignalWatcher>(core_->io, numbers, std::move(on_signal));
  signals->wait();
  return signals->subscription();
}

}  // namespace gpuyard::http
