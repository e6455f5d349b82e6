#include "gpu/driver/command_workers.h"

#include <deque>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "gpu/device/error.h"
#include "gpu/driver/execute_command.h"
#include "gpu/driver/worker_thread.h"

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

class CommandWorkers::Worker final : public WorkerThread {
 public:
  Worker(std::shared_ptr<Backend> backend, std::uint32_t index, OnReply on_reply)
      : WorkerThread(std::move(backend)), index_(index), on_reply_(std::move(on_reply)) {}

  Result<void> enqueue(CommandRequest&& request) {
    {
      const MutexLock lock(mutex_);
      if (stopping_) {
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

  // After this returns, `on_reply_` is not running on the worker's thread and never runs again,
  // unless `on_reply_` itself called this.
  void finish(TimePoint deadline) {
    MutexLock lock(mutex_);
    mute(deadline);
    std::deque<CommandRequest> remaining = std::exchange(queue_, {});
    if (running_) remaining.push_front(*std::exchange(running_, std::nullopt));
    lock.unlock();
    for (const CommandRequest& request : remaining)
      on_reply_(refused_reply(request, terminated_error(index_)));
  }

 private:
  void work() REQUIRES(mutex_) override {
    while (execute_next()) {
    }
  }

  bool execute_next() REQUIRES(mutex_) {
    changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
    if (queue_.empty() || muted_) return false;
    const CommandRequest request = std::move(queue_.front());
    queue_.pop_front();
    running_ = request;
    CommandReply reply =
        call_driver([&](Backend& backend) { return execute_and_log(backend, index_, request); });
    if (muted_) return false;  // already answered as terminated
    running_.reset();
    notify([&] { on_reply_(std::move(reply)); });
    return true;
  }

  const std::uint32_t index_;
  const OnReply on_reply_;

  std::deque<CommandRequest> queue_ GUARDED_BY(mutex_);
  std::optional<CommandRequest> running_ GUARDED_BY(mutex_);
};

CommandWorkers::CommandWorkers(std::shared_ptr<Backend> backend, std::uint32_t gpu_count,
                               const OnReply& on_reply)
    : backend_(std::move(backend)) {
  for (std::uint32_t index = 0; index < gpu_count; ++index) {
    workers_.push_back(std::make_shared<Worker>(backend_, index, on_reply));
    WorkerThread::start(workers_.back());
    log::info("Background task for GPU {} successfully spawned", index);
  }
}

CommandWorkers::~CommandWorkers() {
  close();
  // A worker whose on_reply_ called close() may still be inside it.
  for (const auto& worker : workers_) worker->finish(BootClock::now());
}

void CommandWorkers::close() {
  if (closed_.exchange(true)) return;
  for (const auto& worker : workers_) worker->begin_stop();
  const TimePoint deadline = BootClock::now() + kShutdownGrace;
  for (const auto& worker : workers_) worker->finish(deadline);
}

Result<void> CommandWorkers::send(std::uint32_t index, CommandRequest request) {
  if (index >= workers_.size()) return index_range_error(index);
  if (request.received == TimePoint()) request.received = BootClock::now();
  return workers_[index]->enqueue(std::move(request));
}

}  // namespace gpuyard::driver
