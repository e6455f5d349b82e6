// Waits for NVML's events with one set for all open GPUs. A lost GPU makes every wait of the whole
// set fail at once; the set is then rebuilt without that GPU.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "base/result.h"
#include "gpu/device/event.h"
#include "gpu/nvml/api.h"

namespace gpuyard::nvml {

// Used by one thread. Asks the driver nothing before the first next().
class EventReceiver {
 public:
  explicit EventReceiver(const Api& api) : api_(api) {}
  ~EventReceiver() { close(); }
  EventReceiver(const EventReceiver&) = delete;
  EventReceiver& operator=(const EventReceiver&) = delete;

  // See Backend::next_event(). A GPU takes part from the first call whose `open` contains it.
  Result<std::optional<DeviceEvent>> next_event(const std::map<DeviceId, DeviceHandle>& open,
                                                Duration timeout);
  // Frees the set; call it while the driver is still open.
  void close();

  // The time after a failed registration until the GPU is tried again.
  static constexpr Duration kRegistrationRetryDelay = std::chrono::seconds(10);

 private:
  // The state of a GPU's registration in the set.
  struct Registration {
    ReturnCode code = kSuccess;  // the result of its registration
    TimePoint tried_at;
    bool lost = false;  // true: lost, and the loss was reported
  };

  ReturnCode make_set();
  void ensure_registered(const DeviceId&, DeviceHandle);
  ReturnCode register_one(DeviceHandle) const;
  std::optional<DeviceEvent> to_device_event(const std::map<DeviceId, DeviceHandle>& open,
                                             const EventData&) const;

  const Api& api_;
  EventSet set_ = nullptr;
  std::map<DeviceId, Registration> registrations_;
  std::deque<DeviceEvent> pending_losses_;  // losses of GPUs that were not reported yet
};

}  // namespace gpuyard::nvml
