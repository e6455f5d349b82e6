#include "driver/readers.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace gpuyard::driver {

// Shared between its thread and Readers, so that a thread left behind has what it stands on.
class Readers::Worker {
 public:
  Worker(std::shared_ptr<Backend> backend, DeviceId device, Done done)
      : backend_(std::move(backend)), device_(std::move(device)), done_(std::move(done)) {}

  static void start(const std::shared_ptr<Worker>& self) {
    std::thread([self] { self->run(); }).detach();
  }

  const DeviceId& device() const { return device_; }

  bool enqueue(ReadRequest request) {
    {
      const std::lock_guard lock(mutex_);
      if (queue_.size() >= kMaxQueued) return false;
      queue_.push_back(std::move(request));
    }
    changed_.notify_all();
    return true;
  }

  void ask_to_stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
  }

  // After this returns, `done` is not running and never runs again.
  void wait_stopped(TimePoint deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, deadline - BootClock::now(), [&] { return stopped_; });
    muted_ = true;
    changed_.wait(lock, [&] { return !answering_; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (stopping_) break;
      const ReadRequest request = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      Sample sample = backend_->read(device_, request.probes);
      lock.lock();
      if (muted_) break;
      answering_ = true;
      lock.unlock();
      done_({request.id, device_, std::move(sample)});
      lock.lock();
      answering_ = false;
      changed_.notify_all();
    }
    stopped_ = true;
    lock.unlock();
    changed_.notify_all();
  }

  const std::shared_ptr<Backend> backend_;
  const DeviceId device_;
  const Done done_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ReadRequest> queue_;
  bool stopping_ = false;
  bool stopped_ = false;
  bool muted_ = false;      // nobody listens any more
  bool answering_ = false;  // inside done_
};

Readers::Readers(std::shared_ptr<Backend> backend, const std::vector<DeviceInfo>& devices,
                 Done done) {
  for (const DeviceInfo& info : devices) {
    if (info.fault) continue;
    workers_.push_back(std::make_shared<Worker>(backend, info.id, done));
    Worker::start(workers_.back());
  }
}

Readers::~Readers() {
  constexpr Duration kFarewell = std::chrono::milliseconds(200);
  for (const auto& worker : workers_) worker->ask_to_stop();
  const TimePoint deadline = BootClock::now() + kFarewell;
  for (const auto& worker : workers_) worker->wait_stopped(deadline);
}

bool Readers::read(ReadRequest request) {
  const auto worker = std::find_if(workers_.begin(), workers_.end(), [&](const auto& candidate) {
    return candidate->device() == request.device;
  });
  return worker != workers_.end() && (*worker)->enqueue(std::move(request));
}

}  // namespace gpuyard::driver
