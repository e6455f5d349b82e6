#include "gpu/driver/command_workers.h"

#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/mutex.h"
#include "gpu/device/error.h"
#include "gpu/driver/execute_command.h"

namespace gpuyard::driver {

namespace {

CommandReply execute_and_log(Backend& backend, std::uint32_t index, const CommandRequest& request) {
  CommandReply reply = execute_command(backend, request);
  log_command(index, request, reply);
  return reply;
}

}  // namespace

Error terminated_error(std::uint32_t index) {
  return {Errc::unavailable, fmt::format("GPU management task for GPU {} terminated", index)};
}

// Shared between its thread and CommandWorkers, so that a thread left behind still has its data.
class CommandWorkers::Worker {
 public:
  Worker(std::shared_ptr<Backend> backend, std::uint32_t index, OnReply on_reply, Executor executor)
      : index_(index),
        on_reply_(std::move(on_reply)),
        executor_(std::move(executor)),
        backend_(std::move(backend)) {}

  static void start(const std::shared_ptr<Worker>& self) {
    std::thread thread([self] { self->run(); });
    {
      const MutexLock lock(self->mutex_);
      self->thread_ = thread.get_id();
    }
    thread.detach();
    log::info("Background task for GPU {} successfully spawned", self->index_);
  }

  Result<void> enqueue(CommandRequest&& request) {
    {
      const MutexLock lock(mutex_);
      if (closing_) {
        return Error{Errc::unavailable,
                     fmt::format("GPU {} accepts no more commands: shutting down", index_)};
      }
      if (queue_.size() >= kMaxQueued) {
        return Error{Errc::busy,
                     fmt::format("{} commands are already queued for GPU {}; try again later",
                                 kMaxQueued, index_)};
      }
      queue_.push_back(std::move(request));
    }
    changed_.notify_all();
    return {};
  }

  void begin_close() {
    {
      const MutexLock lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
  }

  // After this returns, `on_reply_` is not running on the worker's thread and never runs again,
  // unless `on_reply_` itself called this.
  void finish(TimePoint deadline) {
    MutexLock lock(mutex_);
    const bool from_within = std::this_thread::get_id() == thread_;
    if (!from_within) {
      changed_.wait_for(mutex_, deadline - BootClock::now(),
                        [&]() REQUIRES(mutex_) { return stopped_; });
    }
    muted_ = true;
    std::deque<CommandRequest> remaining = std::exchange(queue_, {});
    if (running_) remaining.push_front(*std::exchange(running_, std::nullopt));
    if (!from_within) changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return !notifying_; });
    lock.unlock();
    for (const CommandRequest& request : remaining)
      on_reply_(refused_reply(request, terminated_error(index_)));
  }

 private:
  void run() {
    MutexLock lock(mutex_);
    while (execute_next()) {
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

  bool execute_next() REQUIRES(mutex_) {
    changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return closing_ || !queue_.empty(); });
    if (queue_.empty() || muted_) return false;
    const CommandRequest request = std::move(queue_.front());
    queue_.pop_front();
    running_ = request;
    CommandReply reply = execute(request);
    if (muted_) return false;  // already answered as terminated
    running_.reset();
    notifying_ = true;
    {
      const MutexRelease released(mutex_);
      on_reply_(std::move(reply));
    }
    notifying_ = false;
    changed_.notify_all();
    return true;
  }

  CommandReply execute(const CommandRequest& request) REQUIRES(mutex_) {
    const MutexRelease released(mutex_);
    return executor_(*backend_, index_, request);
  }

  const std::uint32_t index_;
  const OnReply on_reply_;
  const Executor executor_;
  std::shared_ptr<Backend> backend_;  // used only by its own thread

  Mutex mutex_;
  ConditionVariable changed_;
  std::thread::id thread_ GUARDED_BY(mutex_);
  std::deque<CommandRequest> queue_ GUARDED_BY(mutex_);
  std::optional<CommandRequest> running_ GUARDED_BY(mutex_);
  bool closing_ GUARDED_BY(mutex_) = false;
  bool stopped_ GUARDED_BY(mutex_) = false;
  bool muted_ GUARDED_BY(mutex_) = false;      // all remaining commands have been answered
  bool notifying_ GUARDED_BY(mutex_) = false;  // inside on_reply_
};

CommandWorkers::CommandWorkers(std::shared_ptr<Backend> backend, std::uint32_t gpu_count,
                               const OnReply& on_reply, const Executor& executor)
    : backend_(std::move(backend)) {
  for (std::uint32_t index = 0; index < gpu_count; ++index) {
    workers_.push_back(std::make_shared<Worker>(backend_, index, on_reply,
                                                executor ? executor : Executor(&execute_and_log)));
    Worker::start(workers_.back());
  }
}

CommandWorkers::~CommandWorkers() {
  close();
  // A worker whose on_reply_ called close() may still be inside it.
  for (const auto& worker : workers_) worker->finish(BootClock::now());
}

void CommandWorkers::close() {
  if (closed_.exchange(true)) return;
  for (const auto& worker : workers_) worker->begin_close();
  const TimePoint deadline = BootClock::now() + kShutdownGrace;
  for (const auto& worker : workers_) worker->finish(deadline);
}

Result<void> CommandWorkers::send(std::uint32_t index, CommandRequest request) {
  if (index >= workers_.size()) return index_range_error(index);
  if (request.received == TimePoint()) request.received = BootClock::now();
  return workers_[index]->enqueue(std::move(request));
}

}  // namespace gpuyard::driver
