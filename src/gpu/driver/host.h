// The driver-host: the child process that alone loads a driver. It holds no lock, no listening
// socket and no file of the daemon, so that a driver call that never returns can be left behind
// with it.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"
#include "device/backend.h"

namespace gpuyard::driver {

using MakeBackend = std::function<Result<std::unique_ptr<Backend>>()>;

// Serves requests on `socket` until the daemon closes its end. Says Hello first; without a driver
// it says why and ends.
void serve_host(UniqueFd socket, const MakeBackend&);

// The process around serve_host: dies with its parent and leaves without waiting for stuck threads.
[[noreturn]] void run_host_process(const MakeBackend&);

// The descriptor on which a driver-host process finds its socket.
inline constexpr int kHostSocket = 3;

// The one thread that waits for what happens to GPUs. The wait may never return when a GPU is
// dying, and may fail at once for ever: neither may cost more than the events.

class EventThread {
 public:
  // `told` is called on that thread, and not after this has ended.
  EventThread(std::shared_ptr<Backend>, std::function<void(DeviceEvent)> told);

  // Waits a moment for the wait under way. A thread whose call does not return is left behind with
  // what it uses, and tells nobody.
  ~EventThread();
  EventThread(const EventThread&) = delete;
  EventThread& operator=(const EventThread&) = delete;

  static constexpr Duration kSlice = std::chrono::milliseconds(250);     // one wait
  static constexpr Duration kFarewell = std::chrono::milliseconds(350);  // longer than a slice
  static constexpr Duration kFirstPause = std::chrono::milliseconds(100);
  static constexpr Duration kLongestPause = std::chrono::seconds(30);
  static constexpr double kBurst = 64;  // events of one GPU
  static constexpr double kEachSecond = 16;

 private:
  class Worker;
  std::shared_ptr<Worker> worker_;
};

}  // namespace gpuyard::driver
