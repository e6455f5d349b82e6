// Changes GPUs with a queue and a thread for each GPU, because a driver call may never return. Runs
// beside ReadWorkers: a GPU is read and changed at the same time. libgpuyard's Control sends
// changes through this class, and the driver-host the commands that only read; the setter has
// ChangeWorkers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/device/backend.h"

namespace gpuyard::driver {

// The error of a command that was running or waiting when its GPU's thread ended: "GPU management
// task for GPU {index} terminated", Errc::unavailable.
Error terminated_error(std::uint32_t index);

// Thread: any.
class CommandWorkers {
 public:
  // Called once for each accepted command, on its GPU's own thread; for a terminated command, on
  // the thread that ends the CommandWorkers. It may send more commands, and may end the
  // CommandWorkers.
  using OnReply = std::function<void(CommandReply)>;

  // GPUs are named by their index. Commands are executed by execute_command() and logged.
  CommandWorkers(std::shared_ptr<Backend>, std::uint32_t gpu_count, const OnReply&);
  // Calls close().
  ~CommandWorkers();
  CommandWorkers(const CommandWorkers&) = delete;
  CommandWorkers& operator=(const CommandWorkers&) = delete;

  std::uint32_t gpu_count() const { return static_cast<std::uint32_t>(workers_.size()); }

  // Queues a command. Commands for one GPU run one after the other, in the order of send(); GPUs do
  // not wait for each other. A command without a time of arrival is given the present time. On an
  // error nothing is queued: Errc::not_found (no such GPU), busy (kMaxQueued already wait),
  // unavailable (closed).
  Result<void> send(std::uint32_t index, CommandRequest);

  // Accepts no more commands, and lets GPUs carry out the queued ones for at most kShutdownGrace.
  // Answers the rest with terminated_error(). A thread whose call does not return is left behind
  // with the objects it uses. A second call, during or after the first, returns at once.
  void close();

  static constexpr std::size_t kMaxQueued = 64;
  static constexpr Duration kShutdownGrace = std::chrono::seconds(1);

 private:
  class Worker;
  std::shared_ptr<Backend> backend_;  // keeps the last release off the GPUs' threads
  std::vector<std::shared_ptr<Worker>> workers_;
  std::atomic<bool> closed_ = false;
};

}  // namespace gpuyard::driver
