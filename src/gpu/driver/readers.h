// A thread for each GPU, because a driver call may never return. It opens its GPU, again and again
// while that fails, and then answers questions about it. The driver-host and the in-process Monitor
// read through this same class.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "device/backend.h"

namespace gpuyard::driver {

// Called on the GPUs' own threads; not after the Readers have ended.
struct ReadersListener {
  std::function<void(ReadReply)> answered;  // once for each request that was accepted
  std::function<void()> opened = [] {};     // devices() has changed since it was first complete
};

class Readers {
 public:
  Readers(std::shared_ptr<Backend>, std::uint32_t gpu_count, const ReadersListener&);

  // Waits a moment for calls under way. A thread whose call does not return is left behind with
  // what it uses; it holds no lock of ours, and its answer goes nowhere.
  ~Readers();
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  // Every GPU, by index, once each has been tried or `patience` has passed: one that is still being
  // opened has the fault "timed out".
  std::vector<DeviceInfo> devices(Duration patience) const;

  // Of one that is open and has no fault.
  std::optional<std::uint32_t> index_of(const DeviceId&) const;

  // Requests for one GPU are answered one after the other, in order. False, and nothing happens: no
  // such GPU is open, or kMaxQueued requests wait for it already.
  bool read(ReadRequest);

  static constexpr std::size_t kMaxQueued = 8;
  static constexpr Duration kOpenPatience = std::chrono::seconds(2);
  static constexpr Duration kReopenDelay = std::chrono::seconds(10);

 private:
  class Worker;
  std::shared_ptr<Backend> backend_;  // so that the last release is not on a thread of its own
  std::vector<std::shared_ptr<Worker>> workers_;
};

}  // namespace gpuyard::driver
