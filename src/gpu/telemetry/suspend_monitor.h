// Pauses the polling of idle GPUs that the kernel may suspend (IdleSuspend). Thread: io.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "gpu/device/device.h"
#include "gpu/telemetry/poll_state.h"
#include "gpu/telemetry/runtime_power.h"

namespace gpuyard::telemetry {

class SuspendMonitor {
 public:
  // Without a source there are no pauses.
  SuspendMonitor() = default;
  // `is_needed` returns whether a GPU is polled nevertheless.
  SuspendMonitor(std::unique_ptr<RuntimePowerSource> source,
                 std::function<bool(const DeviceId&)> is_needed)
      : source_(std::move(source)), is_needed_(std::move(is_needed)) {}

  // Updates each GPU's suspend state, and before that, if `renew`, which of them the kernel may
  // suspend.
  void update(std::vector<PollState>&, bool renew, TimePoint now);

 private:
  std::unique_ptr<RuntimePowerSource> source_;
  std::function<bool(const DeviceId&)> is_needed_;
  std::map<DeviceId, Duration> delays_;  // of the GPUs that the kernel may suspend
};

}  // namespace gpuyard::telemetry
