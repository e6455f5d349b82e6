#include "gpu/driver/worker_thread.h"

#include <utility>

namespace gpuyard::driver {

void WorkerThread::start(const std::shared_ptr<WorkerThread>& self) {
  std::thread([self] { self->run(); }).detach();
}

void WorkerThread::begin_stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void WorkerThread::wait_stopped(TimePoint deadline) {
  const MutexLock lock(mutex_);
  mute(deadline);
}

void WorkerThread::mute(TimePoint deadline) {
  const bool from_within = std::this_thread::get_id() == thread_;
  if (!from_within) {
    changed_.wait_for(mutex_, deadline - BootClock::now(),
                      [&]() REQUIRES(mutex_) { return stopped_; });
  }
  muted_ = true;
  if (!from_within) changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return !notifying_; });
}

void WorkerThread::run() {
  MutexLock lock(mutex_);
  thread_ = std::this_thread::get_id();
  work();
  // The waiting thread may unload the driver next; this thread must no longer use it.
  auto backend = std::exchange(backend_, nullptr);
  lock.unlock();
  backend.reset();
  lock.lock();
  stopped_ = true;
  lock.unlock();
  changed_.notify_all();
}

}  // namespace gpuyard::driver
