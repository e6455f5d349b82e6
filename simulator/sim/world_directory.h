// Where worlds and the simulated NVML are found on disk.
#pragma once

#include <string>

namespace gpuyard::sim {

// GPUYARD_SIM_WORLD, else $XDG_RUNTIME_DIR/gpuyard/sim, else /tmp/gpuyard-sim-<uid>.
std::string default_world_directory();

// The simulated libnvidia-ml.so.1 beside the running program: sim/ in a build tree, else
// ../lib/gpuyard/sim/ of an installation. The second where neither exists.
std::string whole_nvml_path();

// What shows the world in this directory: its own library, if it has one in which functions are
// missing, and library and directory are root's or this user's and nobody else's to write; else the
// whole one.
std::string nvml_path_of(const std::string& directory);
std::string own_nvml_path(const std::string& directory);

// That of the default world.
std::string simulated_nvml_path();

}  // namespace gpuyard::sim
