// Carries out a setter call as a driver does: checks it against the model, applies it or says why
// not.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "gpu/nvml/abi.h"
#include "sim/setting.h"
#include "sim/world.h"

namespace gpuyard::sim {

// Returns NVML's answer; changes the GPU only on success. Does not check the caller's permission.
nvml::ReturnCode apply_setting(Gpu&, const SettingWrite&);

// Does what a reset and a newly loaded driver have in common, even if processes use the GPU.
void restart(Gpu&);

// Resets the GPU as `nvidia-smi --gpu-reset` does: pending changes come into force, volatile
// counters, locks and limits get their initial values, a lost GPU comes back. Errc::conflict while
// processes use it.
Result<void> reset_gpu(Gpu&);

}  // namespace gpuyard::sim
