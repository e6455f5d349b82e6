#include "driver/event_thread.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/log.h"
#include "device/event_limit.h"

namespace gpuyard::driver {

// Shared between its thread and EventThread, so that a thread left behind has what it stands on.
class EventThread::Worker {
 public:
  Worker(std::shared_ptr<Backend> backend, std::function<void(DeviceEvent)> told)
      : told_(std::move(told)), backend_(std::move(backend)) {}

  static void start(const std::shared_ptr<Worker>& self) {
    std::thread([self] { self->run(); }).detach();
  }

  // After this returns, `told` is not running and never runs again.
  void stop(Duration patience) {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, patience, [&] { return stopped_; });
    muted_ = true;
    changed_.wait(lock, [&] { return !telling_; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_ && wait_once(lock)) {
    }
    // Whoever waits may go on to unload the driver; this thread has nothing to do with it any more.
    auto backend = std::exchange(backend_, nullptr);
    lock.unlock();
    backend.reset();
    lock.lock();
    stopped_ = true;
    changed_.notify_all();
  }

  // False: there will never be an event.
  bool wait_once(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    const TimePoint began = BootClock::now();
    auto next = backend_->next_event(kSlice);
    lock.lock();
    if (!next) return recover(lock, next.error());
    pause_ = kFirstPause;
    const TimePoint now = BootClock::now();
    if (*next && limit_.admit((*next)->device, now)) tell(lock, *std::move(*next));
    for (DeviceEvent& lost : limit_.take_refused(EventSource::driver, now)) {
      tell(lock, std::move(lost));
    }
    // A driver whose wait does not wait.
    const bool too_soon = !*next && now - began < kSlice / 2;
    if (too_soon) changed_.wait_for(lock, kFirstPause, [&] { return stopping_; });
    return true;
  }

  bool recover(std::unique_lock<std::mutex>& lock, const Error& error) {
    if (error.code == Errc::unsupported) {
      log::info("no events from the driver: {}", error.message);
      return false;
    }
    // Each reason once: a driver may answer at once, for ever.
    if (std::exchange(said_, error.message) != error.message) {
      log::info("no events from the driver for now: {}", error.message);
    }
    changed_.wait_for(lock, pause_, [&] { return stopping_; });
    pause_ = std::min(pause_ * 2, kLongestPause);
    return true;
  }

  // Runs told_ without the lock, unless nobody listens any more.
  void tell(std::unique_lock<std::mutex>& lock, DeviceEvent event) {
    if (muted_) return;
    telling_ = true;
    lock.unlock();
    told_(std::move(event));
    lock.lock();
    telling_ = false;
    changed_.notify_all();
  }

  const std::function<void(DeviceEvent)> told_;

  // Only its own thread's:
  EventLimit limit_{kBurst, kEachSecond};
  Duration pause_ = kFirstPause;
  std::string said_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Backend> backend_;
  bool stopping_ = false;
  bool stopped_ = false;
  bool muted_ = false;    // nobody listens any more
  bool telling_ = false;  // inside told_
};

EventThread::EventThread(std::shared_ptr<Backend> backend, std::function<void(DeviceEvent)> told)
    : worker_(std::make_shared<Worker>(std::move(backend), std::move(told))) {
  Worker::start(worker_);
}

EventThread::~EventThread() {
  worker_->stop(kFarewell);
}

}  // namespace gpuyard::driver
