// Reads GPUs with a thread for each, because a driver call may never return. The thread tries to
// open its GPU until that succeeds, and then answers queries about it. The driver-host and the
// in-process Monitor read through this class.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/device/backend.h"

namespace gpuyard::driver {

// Called on the GPUs' own threads, never after the ReadWorkers have ended.
struct ReadListener {
  std::function<void(ReadReply)> on_reply;  // once for each accepted request
  std::function<void()> on_opened = [] {};  // devices() has changed since it was first complete
};

// Thread: any.
class ReadWorkers {
 public:
  ReadWorkers(std::shared_ptr<Backend>, std::uint32_t gpu_count, const ReadListener&);

  // Waits a moment for running calls. A thread whose call does not return is left behind with the
  // objects it uses; it holds no lock of ours, and its reply is dropped.
  ~ReadWorkers();
  ReadWorkers(const ReadWorkers&) = delete;
  ReadWorkers& operator=(const ReadWorkers&) = delete;

  // Returns every GPU, by index, once each has been tried or `timeout` has passed. A GPU that is
  // still being opened has the fault "timed out".
  std::vector<DeviceInfo> devices(Duration timeout) const;

  // Returns the index of a GPU that is open and has no fault.
  std::optional<std::uint32_t> index_of(const DeviceId&) const;

  // Queues a request; requests for one GPU are answered one after the other, in order. Returns
  // false, and drops the request, if no such GPU is open or kMaxQueued requests for it already
  // wait.
  bool read(ReadRequest);

  static constexpr std::size_t kMaxQueued = 8;
  static constexpr Duration kOpenTimeout = std::chrono::seconds(2);
  static constexpr Duration kReopenDelay = std::chrono::seconds(10);

 private:
  class Worker;
  std::shared_ptr<Backend> backend_;  // keeps the last release off the GPUs' threads
  std::vector<std::shared_ptr<Worker>> workers_;
  // The search for a GPU begins behind the last one found: all are read in this order, and a worker
  // that is passed over is locked for it.
  std::atomic<std::size_t> next_ = 0;
};

}  // namespace gpuyard::driver
