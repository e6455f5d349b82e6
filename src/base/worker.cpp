#include "base/worker.h"

#include <pthread.h>

#include <deque>
#include <thread>

#include "base/mutex.h"

namespace gpuyard {

// Shared between the worker and its thread, so that a thread left behind still has its data.
class ThreadWorker::Queue {
 public:
  explicit Queue(Loop& loop) : loop_(loop) {}

  bool push(Task task) {
    {
      const MutexLock lock(mutex_);
      if (tasks_.size() >= kMaxQueued) return false;
      tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
    return true;
  }

  void run() {
    MutexLock lock(mutex_);
    for (;;) {
      changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return closing_ || !tasks_.empty(); });
      if (tasks_.empty() || abandoned_) break;
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      Completion completion = task();
      task = nullptr;  // destroys what it owns here, outside the lock
      lock.lock();
      if (completion && !abandoned_) loop_.post(std::move(completion));
    }
    ended_ = true;
    changed_.notify_all();
  }

  // The loop is not used after this returns.
  void close(Duration shutdown_grace) {
    const MutexLock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    changed_.wait_for(mutex_, shutdown_grace, [&]() REQUIRES(mutex_) { return ended_; });
    abandoned_ = true;
  }

 private:
  Loop& loop_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Task> tasks_ GUARDED_BY(mutex_);
  bool closing_ GUARDED_BY(mutex_) = false;
  bool abandoned_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;
};

ThreadWorker::ThreadWorker(Loop& loop, const std::string& name, Duration shutdown_grace)
    : queue_(std::make_shared<Queue>(loop)), shutdown_grace_(shutdown_grace) {
  std::thread thread([queue = queue_] { queue->run(); });
  ::pthread_setname_np(thread.native_handle(), name.c_str());
  thread.detach();
}

ThreadWorker::~ThreadWorker() {
  queue_->close(shutdown_grace_);
}

bool ThreadWorker::post(Task task) {
  return queue_->push(std::move(task));
}

}  // namespace gpuyard
