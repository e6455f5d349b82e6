// Where worlds and the simulated NVML are found on disk.
#pragma once

#include <string>

namespace gpuyard::sim {

// GPUYARD_SIM_WORLD, else $XDG_RUNTIME_DIR/gpuyard/sim, else /tmp/gpuyard-sim-<uid>.
std::string default_world_directory();

// The simulated libnvidia-ml.so.1 beside the running program: sim/ in a build tree, else
// ../lib/gpuyard/sim/ of an installation. The second where neither exists.
std::string simulated_nvml_path();

}  // namespace gpuyard::sim
