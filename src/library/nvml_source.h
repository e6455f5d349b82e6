// Which NVML a process of ours loads: the one the user names, that of a simulated world, or the
// system's. The only wiring that knows both NVML and the simulator's place.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "device/backend.h"

namespace gpuyard::library {

struct NvmlChoice {
  std::string path;               // empty: the system's
  std::string simulated_library;  // where the simulated one is installed
};

// `configured` wins; else a world named by GPUYARD_SIM_WORLD means the simulated library.
// `simulated_library` is where that one is installed.
NvmlChoice choose_nvml(const std::string& configured, const std::string& simulated_library);

Result<std::unique_ptr<Backend>> open_nvml(const NvmlChoice&);

}  // namespace gpuyard::library
