// A thread beside the loop, for work that may wait for a disk, for /proc or for a name service.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/loop.h"

namespace gpuyard {

// Jobs run one after the other, in order. A job stands on what it owns (a worker may leave one
// behind that never returns), and returns what is to be done on the loop then, or nullptr.
class Worker {
 public:
  using Afterwards = std::function<void()>;
  using Job = std::function<Afterwards()>;
  virtual ~Worker() = default;
  // False, and nothing happens: too many jobs wait already.
  virtual bool post(Job) = 0;
};

// Runs ask() on the worker and then hears(its answer) on the loop. False: see Worker::post().
template <class Ask, class Hear>
bool ask_worker(Worker& worker, Ask ask, Hear hear) {
  return worker.post([ask = std::move(ask), hear = std::move(hear)]() mutable {
    auto answer = std::make_shared<decltype(ask())>(ask());
    return [answer, hear = std::move(hear)]() mutable { hear(std::move(*answer)); };
  });
}

// post() only on the loop's thread.
class ThreadWorker final : public Worker {
 public:
  // `name`, of at most 15 characters, is what `top -H` shows.
  ThreadWorker(Loop&, const std::string& name, Duration farewell = kFarewell);

  // Jobs that wait are still run, for `farewell` in all. One that does not return is left behind.
  ~ThreadWorker() override;
  ThreadWorker(const ThreadWorker&) = delete;
  ThreadWorker& operator=(const ThreadWorker&) = delete;

  bool post(Job) override;

  static constexpr std::size_t kMaxQueued = 256;
  static constexpr Duration kFarewell = std::chrono::seconds(2);

 private:
  class Queue;
  std::shared_ptr<Queue> queue_;
  Duration farewell_;
};

// One immutable value, handed from the thread that makes it to the threads that read it.

// Any thread may call either. A mutex rather than std::atomic<std::shared_ptr>: equally fast here,
// and ThreadSanitizer reports false races inside libstdc++ 12's atomic one.
template <class T>
class Published {
 public:
  std::shared_ptr<const T> load() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  void store(std::shared_ptr<const T> value) {
    const std::lock_guard lock(mutex_);
    value_.swap(value);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const T> value_;
};

}  // namespace gpuyard
