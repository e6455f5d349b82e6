// A thread for each GPU, because a driver call may never return. The driver-host and the in-process
// Monitor read through this same class.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/backend.h"
#include "device/read.h"

namespace gpuyard::driver {

class Readers {
 public:
  // `done` is called on the GPU's own thread, for each request that was accepted.
  using Done = std::function<void(ReadReply)>;

  // Devices with a fault get no thread.
  Readers(std::shared_ptr<Backend>, const std::vector<DeviceInfo>&, Done done);

  // Waits a moment for calls under way. A thread whose call does not return is left behind with
  // what it uses; it holds no lock of ours, and its answer goes nowhere.
  ~Readers();
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  // Requests for one GPU are answered one after the other, in order. False, and nothing happens:
  // there is no such GPU, or kMaxQueued requests wait for it already.
  bool read(ReadRequest);

  static constexpr std::size_t kMaxQueued = 8;

 private:
  class Worker;
  std::vector<std::shared_ptr<Worker>> workers_;
};

}  // namespace gpuyard::driver
