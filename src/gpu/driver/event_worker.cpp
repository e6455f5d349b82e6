#include "gpu/driver/event_worker.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "gpu/device/event_rate_limiter.h"
#include "gpu/driver/worker_thread.h"

namespace gpuyard::driver {

class EventWorker::Worker final : public WorkerThread {
 public:
  Worker(std::shared_ptr<Backend> backend, std::function<void(DeviceEvent)> on_event)
      : WorkerThread(std::move(backend)), on_event_(std::move(on_event)) {}

 private:
  void work() REQUIRES(mutex_) override {
    while (!stopping_ && wait_once()) {
    }
  }

  // Returns false if there will never be an event.
  bool wait_once() REQUIRES(mutex_) {
    const TimePoint began = BootClock::now();
    auto next = call_driver([](Backend& backend) { return backend.next_event(kWaitSlice); });
    if (!next) return recover(next.error());
    retry_delay_ = kMinRetryDelay;
    const TimePoint now = BootClock::now();
    if (*next && rate_limiter_.admit(**next, now)) report(*std::move(*next));
    for (DeviceEvent& lost : rate_limiter_.take_dropped(EventSource::driver, now)) {
      report(std::move(lost));
    }
    // The driver returned before its wait was over.
    const bool too_soon = !*next && now - began < kWaitSlice / 2;
    if (too_soon) {
      changed_.wait_for(mutex_, kMinRetryDelay, [&]() REQUIRES(mutex_) { return stopping_; });
    }
    return true;
  }

  bool recover(const Error& error) REQUIRES(mutex_) {
    if (error.code == Errc::unsupported) {
      log::info("no events from the driver: {}", error.text());
      return false;
    }
    // Logs a repeated reason once, because a driver may fail at once each time.
    if (std::exchange(last_error_, error.text()) != error.text()) {
      log::info("no events from the driver for now: {}", error.text());
    }
    changed_.wait_for(mutex_, retry_delay_, [&]() REQUIRES(mutex_) { return stopping_; });
    retry_delay_ = std::min(retry_delay_ * 2, kMaxRetryDelay);
    return true;
  }

  void report(DeviceEvent event) REQUIRES(mutex_) {
    notify([&] { on_event_(std::move(event)); });
  }

  const std::function<void(DeviceEvent)> on_event_;

  // Used only by its own thread:
  EventRateLimiter rate_limiter_{kBurst, kEventsPerSecond};
  Duration retry_delay_ = kMinRetryDelay;
  std::string last_error_;
};

EventWorker::EventWorker(std::shared_ptr<Backend> backend,
                         std::function<void(DeviceEvent)> on_event)
    : worker_(std::make_shared<Worker>(std::move(backend), std::move(on_event))) {
  WorkerThread::start(worker_);
}

EventWorker::~EventWorker() {
  worker_->begin_stop();
  worker_->wait_stopped(BootClock::now() + kShutdownGrace);
}

}  // namespace gpuyard::driver
