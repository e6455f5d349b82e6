// NVML's setters and their getters: the settings of one GPU. Keeps no state, so a GPU's command
// worker may use it while its read worker reads.
#pragma once

#include <sys/types.h>

#include "base/result.h"
#include "gpu/device/command.h"
#include "gpu/device/setting.h"
#include "gpu/nvml/api.h"

namespace gpuyard::nvml {

// Errors have NVML's meaning (errc_of) and its words after the attempted action: "setting the power
// limit to 300 W: Insufficient Permissions".
Result<SettingState> read_device_setting(const Api&, DeviceHandle, SettingKind);
// Reads only the present power limit. `range` has the rest, which stays as it is while a GPU is
// open.
Result<SettingState> read_power_limit(const Api&, DeviceHandle, SettingState range);
Result<void> write_device_setting(const Api&, DeviceHandle, const Setting&);
Result<void> clear_ecc_counter(const Api&, DeviceHandle, EccCounter);
// Returns millijoules since the driver was loaded.
Result<std::int64_t> read_total_energy(const Api&, DeviceHandle);

// Decides whether this process may change GPUs: a real driver asks the kernel for CAP_SYS_ADMIN.
struct Privilege {
  uid_t uid = 0;
  bool sys_admin = false;  // CAP_SYS_ADMIN is effective
};

// Returns the privilege of the calling thread.
Privilege effective_privilege();

// Allows root even if it seems to have no capabilities, as in some containers: the driver's own
// refusal is better than a guess. Errc::denied says what is missing and how to get it.
Result<void> check_privilege(const Privilege&);

}  // namespace gpuyard::nvml
