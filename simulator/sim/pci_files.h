// The names of the files of a simulated PCI device, for the world server and for the simulated
// NVML.
#pragma once

namespace gpuyard::sim {

// Below a world's directory.
inline constexpr const char* kPciDirectory = "pci";
// Below a GPU's directory: modified by every call for the GPU.
inline constexpr const char* kLastUseFile = "last_use";

}  // namespace gpuyard::sim
