// NVML's events: one set for all GPUs that are open. A GPU that is lost makes the wait of a whole
// set fail at once, for ever; then the set is made anew without it.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "base/result.h"
#include "device/event.h"
#include "nvml/api.h"

namespace gpuyard::nvml {

// Used by one thread. Nothing is asked of the driver before the first next().
class EventWatch {
 public:
  explicit EventWatch(const Api& api) : api_(api) {}
  ~EventWatch() { close(); }
  EventWatch(const EventWatch&) = delete;
  EventWatch& operator=(const EventWatch&) = delete;

  // See Backend::next_event(). A GPU takes part from the first call on whose `open` has it.
  Result<std::optional<DeviceEvent>> next(const std::map<DeviceId, DeviceHandle>& open,
                                          Duration at_most);
  // Gives the set back, while the driver is still open.
  void close();

  // A GPU that could not be registered is tried again.
  static constexpr Duration kTryAgainAfter = std::chrono::seconds(10);

 private:
  // How a GPU stands to the set.
  struct Member {
    ReturnCode code = kSuccess;  // of its registration
    TimePoint tried;
    bool lost = false;  // and that was told
  };

  ReturnCode make_set();
  void enrol(const DeviceId&, DeviceHandle);
  ReturnCode register_one(DeviceHandle) const;
  std::optional<DeviceEvent> pass_on(const std::map<DeviceId, DeviceHandle>& open,
                                     const EventData&) const;

  const Api& api_;
  EventSet set_ = nullptr;
  std::map<DeviceId, Member> members_;
  std::deque<DeviceEvent> found_;  // GPUs found to be lost, not told yet
};

}  // namespace gpuyard::nvml
