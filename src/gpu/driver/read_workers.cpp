#include "gpu/driver/read_workers.h"

#include <fmt/format.h>

#include <deque>
#include <optional>
#include <utility>

#include "gpu/driver/worker_thread.h"

namespace gpuyard::driver {

class ReadWorkers::Worker final : public WorkerThread {
 public:
  Worker(std::shared_ptr<Backend> backend, std::uint32_t index, ReadListener listener)
      : WorkerThread(std::move(backend)), index_(index), listener_(std::move(listener)) {}

  DeviceInfo wait_opened(TimePoint deadline) const {
    const MutexLock lock(mutex_);
    changed_.wait_for(mutex_, deadline - BootClock::now(),
                      [&]() REQUIRES(mutex_) { return info_.has_value(); });
    if (info_) return *info_;
    DeviceInfo unknown;
    unknown.id = fmt::format("index:{}", index_);
    unknown.index = index_;
    unknown.fault = Missing{MissingReason::timed_out, "the driver did not open this GPU in time"};
    open_timed_out_ = true;
    return unknown;
  }

  bool has_device(const DeviceId& id) const {
    const MutexLock lock(mutex_);
    return is_open(id);
  }
  std::uint32_t index() const { return index_; }

  bool enqueue(ReadRequest& request) {
    {
      const MutexLock lock(mutex_);
      if (!is_open(request.device) || queue_.size() >= kMaxQueued) return false;
      queue_.push_back(std::move(request));
    }
    changed_.notify_all();
    return true;
  }

 private:
  bool is_open(const DeviceId& id) const REQUIRES(mutex_) {
    return info_ && !info_->fault && info_->id == id;
  }

  void work() REQUIRES(mutex_) override {
    if (!open()) return;
    while (read_next()) {
    }
  }

  // Returns false if it has to stop first.
  bool open() REQUIRES(mutex_) {
    for (;;) {
      DeviceInfo info = call_driver([&](Backend& backend) { return backend.open(index_); });
      const bool changed = open_timed_out_ || (info_ && *info_ != info);
      const bool healthy = !info.fault;
      info_ = std::move(info);
      changed_.notify_all();
      if (changed) notify([&] { listener_.on_opened(); });
      if (healthy) return !stopping_;
      if (changed_.wait_for(mutex_, kReopenDelay, [&]() REQUIRES(mutex_) { return stopping_; })) {
        return false;
      }
    }
  }

  bool read_next() REQUIRES(mutex_) {
    changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
    if (stopping_) return false;
    const ReadRequest request = std::move(queue_.front());
    queue_.pop_front();
    Sample sample =
        call_driver([&](Backend& backend) { return backend.read(request.device, request.probes); });
    notify([&] { listener_.on_reply({request.id, request.device, std::move(sample)}); });
    return true;
  }

  const std::uint32_t index_;
  const ReadListener listener_;

  std::optional<DeviceInfo> info_ GUARDED_BY(mutex_);
  std::deque<ReadRequest> queue_ GUARDED_BY(mutex_);
  // devices() has answered without this GPU.
  mutable bool open_timed_out_ GUARDED_BY(mutex_) = false;
};

ReadWorkers::ReadWorkers(std::shared_ptr<Backend> backend, std::uint32_t gpu_count,
                         const ReadListener& listener)
    : backend_(std::move(backend)) {
  for (std::uint32_t index = 0; index < gpu_count; ++index) {
    workers_.push_back(std::make_shared<Worker>(backend_, index, listener));
    WorkerThread::start(workers_.back());
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
  const std::size_t first = next_;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const std::size_t place = (first + i) % workers_.size();
    if (!workers_[place]->enqueue(request)) continue;
    next_ = place + 1;
    return true;
  }
  return false;
}

}  // namespace gpuyard::driver
