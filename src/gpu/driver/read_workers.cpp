#include "gpu/driver/read_workers.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace gpuyard::driver {

// Shared between its thread and ReadWorkers, so that a thread left behind still has its data.
class ReadWorkers::Worker {
 public:
  Worker(std::shared_ptr<Backend> backend, std::uint32_t index, ReadListener listener)
      : index_(index), listener_(std::move(listener)), backend_(std::move(backend)) {}

  static void start(const std::shared_ptr<Worker>& self) {
    std::thread([self] { self->run(); }).detach();
  }

  DeviceInfo wait_opened(TimePoint deadline) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, deadline - BootClock::now(), [&] { return info_.has_value(); });
    if (info_) return *info_;
    DeviceInfo unknown;
    unknown.id = fmt::format("index:{}", index_);
    unknown.index = index_;
    unknown.fault = Missing{MissingReason::timed_out, "the driver did not open this GPU in time"};
    open_timed_out_ = true;
    return unknown;
  }

  bool has_device(const DeviceId& id) const {
    const std::lock_guard lock(mutex_);
    return is_open(id);
  }
  std::uint32_t index() const { return index_; }

  bool enqueue(ReadRequest& request) {
    {
      const std::lock_guard lock(mutex_);
      if (!is_open(request.device) || queue_.size() >= kMaxQueued) return false;
      queue_.push_back(std::move(request));
    }
    changed_.notify_all();
    return true;
  }

  void begin_stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
  }

  // After this returns, the listener is not running and never runs again.
  void wait_stopped(TimePoint deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, deadline - BootClock::now(), [&] { return stopped_; });
    muted_ = true;
    changed_.wait(lock, [&] { return !notifying_; });
  }

 private:
  bool is_open(const DeviceId& id) const { return info_ && !info_->fault && info_->id == id; }

  void run() {
    std::unique_lock lock(mutex_);
    if (open(lock)) {
      while (read_next(lock)) {
      }
    }
    // The waiting thread may unload the driver next; this thread must no longer use it.
    auto backend = std::exchange(backend_, nullptr);
    lock.unlock();
    backend.reset();
    lock.lock();
    stopped_ = true;
    lock.unlock();
    changed_.notify_all();
  }

  // Returns false if it has to stop first.
  bool open(std::unique_lock<std::mutex>& lock) {
    for (;;) {
      lock.unlock();
      DeviceInfo info = backend_->open(index_);
      lock.lock();
      const bool changed = open_timed_out_ || (info_ && *info_ != info);
      const bool healthy = !info.fault;
      info_ = std::move(info);
      changed_.notify_all();
      if (changed) notify(lock, [&] { listener_.on_opened(); });
      if (healthy) return !stopping_;
      if (changed_.wait_for(lock, kReopenDelay, [&] { return stopping_; })) return false;
    }
  }

  bool read_next(std::unique_lock<std::mutex>& lock) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return false;
    const ReadRequest request = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Sample sample = backend_->read(request.device, request.probes);
    lock.lock();
    notify(lock, [&] { listener_.on_reply({request.id, request.device, std::move(sample)}); });
    return true;
  }

  // Runs `callback` without the lock, unless the worker is muted.
  template <class Callback>
  void notify(std::unique_lock<std::mutex>& lock, Callback callback) {
    if (muted_) return;
    notifying_ = true;
    lock.unlock();
    callback();
    lock.lock();
    notifying_ = false;
    changed_.notify_all();
  }

  const std::uint32_t index_;
  const ReadListener listener_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::shared_ptr<Backend> backend_;
  std::optional<DeviceInfo> info_;
  std::deque<ReadRequest> queue_;
  mutable bool open_timed_out_ = false;  // devices() has answered without this GPU
  bool stopping_ = false;
  bool stopped_ = false;
  bool muted_ = false;      // the listener must not be called any more
  bool notifying_ = false;  // inside the listener
};

ReadWorkers::ReadWorkers(std::shared_ptr<Backend> backend, std::uint32_t gpu_count,
                         const ReadListener& listener)
    : backend_(std::move(backend)) {
  for (std::uint32_t index = 0; index < gpu_count; ++index) {
    workers_.push_back(std::make_shared<Worker>(backend_, index, listener));
    Worker::start(workers_.back());
  }
}

ReadWorkers::~ReadWorkers() {
  constexpr Duration kShutdownGrace = std::chrono::milliseconds(200);
  for (const auto& worker : workers_) worker->begin_stop();
  const TimePoint deadline = BootClock::now() + kShutdownGrace;
  for (const auto& worker : workers_) worker->wait_stopped(deadline);
}

std::vector<DeviceInfo> ReadWorkers::devices(Duration timeout) const {
  const TimePoint deadline = BootClock::now() + timeout;
  std::vector<DeviceInfo> devices;
  for (const auto& worker : workers_) devices.push_back(worker->wait_opened(deadline));
  return devices;
}

std::optional<std::uint32_t> ReadWorkers::index_of(const DeviceId& id) const {
  for (const auto& worker : workers_) {
    if (worker->has_device(id)) return worker->index();
  }
  return std::nullopt;
}

bool ReadWorkers::read(ReadRequest request) {
  for (const auto& worker : workers_) {
    if (worker->enqueue(request)) return true;
  }
  return false;
}

}  // namespace gpuyard::driver
