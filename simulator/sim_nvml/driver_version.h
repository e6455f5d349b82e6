// What goes with the version of the simulated driver. What came with a later one than the usual 535
// is not answered, even where a later header names it: see the field ids in fields.cpp.
#pragma once

#include <string>
#include <string_view>

namespace gpuyard::sim_nvml {

// "12.535.104" for "535.104.05".
std::string nvml_version_of(std::string_view driver);

// The highest CUDA version of the driver's branch, as NVML writes it: 12020 is 12.2.
int cuda_version_of(std::string_view driver);

}  // namespace gpuyard::sim_nvml
