// What a driver does with a setter call: check it against the model, take it or say why not.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "nvml/abi.h"
#include "sim/setting.h"
#include "sim/world.h"

namespace gpuyard::sim {

// NVML's answer; the GPU is changed only if that is success. Who asks is not looked at here.
nvml::ReturnCode apply_setting(Gpu&, const SettingWrite&);

// What a reset and a newly loaded driver have in common, whoever uses the GPU.
void restart(Gpu&);

// A reset of the GPU, as `nvidia-smi --gpu-reset` does it: pending changes come into force,
// volatile counters, locks and limits are as at the start, a lost GPU is found again.
// Errc::conflict while processes use it.
Result<void> reset_gpu(Gpu&);

}  // namespace gpuyard::sim
