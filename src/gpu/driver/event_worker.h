// The one thread that waits for events of GPUs. When a GPU is dying, a wait may never return, or
// every wait may fail at once: neither may cost more than the events.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "gpu/device/backend.h"
#include "gpu/device/event.h"

namespace gpuyard::driver {

// Thread: any; `on_event` runs on its own.
class EventWorker {
 public:
  // Calls `on_event` on that thread, and never after the destructor has returned.
  EventWorker(std::shared_ptr<Backend>, std::function<void(DeviceEvent)> on_event);

  // Waits up to kShutdownGrace for the running wait. A thread whose call does not return is left
  // behind with the objects it uses, and calls nobody.
  ~EventWorker();
  EventWorker(const EventWorker&) = delete;
  EventWorker& operator=(const EventWorker&) = delete;

  static constexpr Duration kWaitSlice = std::chrono::milliseconds(250);      // one wait
  static constexpr Duration kShutdownGrace = std::chrono::milliseconds(350);  // longer than a slice
  static constexpr Duration kMinRetryDelay = std::chrono::milliseconds(100);
  static constexpr Duration kMaxRetryDelay = std::chrono::seconds(30);
  // The limits of all notes of one GPU together, and of each number that is more than a note.
  static constexpr double kBurst = 64;
  static constexpr double kEventsPerSecond = 16;

 private:
  class Worker;
  std::shared_ptr<Worker> worker_;
};

}  // namespace gpuyard::driver
