// The thread under the workers that call a driver: a call may never return, and then its thread is
// left behind with all that it uses.
#pragma once

#include <memory>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "gpu/device/backend.h"

namespace gpuyard::driver {

// Shared between its thread and its owner, so that a thread left behind still has its data.
// Thread: any, except for work() and what it calls.
class WorkerThread {
 public:
  // Runs the worker on a thread of its own, and gives up the thread.
  static void start(const std::shared_ptr<WorkerThread>& self);

  virtual ~WorkerThread() = default;
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  // Asks work() to return.
  void begin_stop();
  // Waits until the thread has ended, or `deadline`. After this returns, no callback of notify()
  // runs on the thread, and none starts again, unless such a callback itself called this.
  void wait_stopped(TimePoint deadline);

 protected:
  explicit WorkerThread(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}

  // Works until stopping_ is set. Runs once, on the thread.
  virtual void work() REQUIRES(mutex_) = 0;

  // Returns the result of a call of the driver, made without the lock. REQUIRES: called by work().
  template <class Call>
  auto call_driver(Call call) REQUIRES(mutex_) {
    const MutexRelease released(mutex_);
    return call(*backend_);
  }
  // Runs a callback of the owner without the lock, unless the thread is muted. REQUIRES: called by
  // work().
  template <class Callback>
  void notify(Callback callback) REQUIRES(mutex_) {
    if (muted_) return;
    notifying_ = true;
    {
      const MutexRelease released(mutex_);
      callback();
    }
    notifying_ = false;
    changed_.notify_all();
  }

  // Implements wait_stopped().
  void mute(TimePoint deadline) REQUIRES(mutex_);

  mutable Mutex mutex_;
  mutable ConditionVariable changed_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool muted_ GUARDED_BY(mutex_) = false;  // no callback may be called any more

 private:
  void run();

  std::shared_ptr<Backend> backend_;  // used only by its own thread
  std::thread::id thread_ GUARDED_BY(mutex_);
  bool stopped_ GUARDED_BY(mutex_) = false;
  bool notifying_ GUARDED_BY(mutex_) = false;  // inside a callback
};

}  // namespace gpuyard::driver
