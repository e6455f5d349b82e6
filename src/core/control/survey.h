// Reads all settings of some GPUs from their drivers.
#pragma once

#include <functional>
#include <vector>

#include "core/control/setting_controller.h"
#include "gpu/device/setting.h"

namespace gpuyard::control {

struct SettingReading {
  DeviceId gpu;
  SettingKind kind{};
  Result<SettingState> state = Error{Errc::timed_out, "the GPU did not respond in time"};
};

// Reports the settings by GPU and kind, in their order. A setting without a reply after `timeout`
// is Errc::timed_out. The callback runs once, never inside the call.
void read_settings(Loop&, SettingController&, const std::vector<DeviceId>&, Duration timeout,
                   std::function<void(const std::vector<SettingReading>&)> on_done);

}  // namespace gpuyard::control
