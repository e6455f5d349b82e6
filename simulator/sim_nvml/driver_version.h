// Which driver is simulated. What came with a later one is not answered, even where a later header
// names it: see the field ids in fields.cpp.
#pragma once

namespace gpuyard::sim_nvml {

inline constexpr const char* kDriverVersion = "535.104.05";
inline constexpr const char* kNvmlVersion = "12.535.104";
inline constexpr int kCudaVersion = 12020;

}  // namespace gpuyard::sim_nvml
