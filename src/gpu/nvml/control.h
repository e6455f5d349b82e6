// NVML's setters and the getters that belong to them: what can be set of one GPU. Remembers
// nothing, so that a GPU's commander may use it while its reader reads.
#pragma once

#include "base/result.h"
#include "device/command.h"
#include "nvml/api.h"

namespace gpuyard::nvml {

// Errors have NVML's meaning (errc_of) and its words, behind what was tried: "setting the power
// limit to 300 W: Insufficient Permissions".
Result<SettingState> look_at(const Api&, DeviceHandle, SettingKind);
Result<void> apply_to(const Api&, DeviceHandle, const Setting&);
Result<void> clear_ecc_of(const Api&, DeviceHandle, EccCounter);
// Millijoules since the driver was loaded.
Result<std::int64_t> total_energy_of(const Api&, DeviceHandle);

}  // namespace gpuyard::nvml
