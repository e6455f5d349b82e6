// A thread beside the loop, for work that may wait for a disk, for /proc or for a name service.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/loop.h"

namespace gpuyard {

// Tasks run one after the other, in the order of post(). A task owns all that it uses, because a
// worker may leave behind a task that never returns. It returns the work to be done on the loop
// afterwards, or nullptr.
class Worker {
 public:
  using Completion = std::function<void()>;
  using Task = std::function<Completion()>;
  virtual ~Worker() = default;
  // Returns false, and drops the task, if too many tasks are waiting.
  virtual bool post(Task) = 0;
};

// Runs work() on the worker, then on_done(result) on the loop. Returns as Worker::post() does.
template <class Work, class OnDone>
bool run_on_worker(Worker& worker, Work work, OnDone on_done) {
  return worker.post([work = std::move(work), on_done = std::move(on_done)]() mutable {
    auto result = std::make_shared<decltype(work())>(work());
    return [result, on_done = std::move(on_done)]() mutable { on_done(std::move(*result)); };
  });
}

// Thread: the loop's, of post().
class ThreadWorker final : public Worker {
 public:
  // `name`, of at most 15 characters, is what `top -H` shows.
  ThreadWorker(Loop&, const std::string& name, Duration shutdown_grace = kShutdownGrace);

  // Runs the tasks that still wait, for `shutdown_grace` in all. Leaves a task that does not return
  // behind.
  ~ThreadWorker() override;
  ThreadWorker(const ThreadWorker&) = delete;
  ThreadWorker& operator=(const ThreadWorker&) = delete;

  bool post(Task) override;

  static constexpr std::size_t kMaxQueued = 256;
  static constexpr Duration kShutdownGrace = std::chrono::seconds(2);

 private:
  class Queue;
  std::shared_ptr<Queue> queue_;
  Duration shutdown_grace_;
};

}  // namespace gpuyard
