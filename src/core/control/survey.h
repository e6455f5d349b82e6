// What can be set of some GPUs, as their drivers say it now.
#pragma once

#include <functional>
#include <vector>

#include "control/control.h"
#include "device/setting.h"

namespace gpuyard::control {

struct Surveyed {
  DeviceId gpu;
  SettingKind kind{};
  Result<SettingState> seen = Error{Errc::timed_out, "the GPU has not answered in time"};
};

// By GPU and kind, in their order; what has not come after `patience` is told as that. Told once,
// never inside the call.
void survey(Loop&, Control&, const std::vector<DeviceId>&, Duration patience,
            std::function<void(const std::vector<Surveyed>&)> told);

}  // namespace gpuyard::control
