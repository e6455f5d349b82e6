// Where the file is that this code was loaded from: libgpuyard has no other way to find what was
// installed beside it.
#pragma once

#include <string>

namespace gpuyard::library {

// The simulated NVML that was installed, or built, with this library.
std::string simulated_nvml_beside_library();

}  // namespace gpuyard::library
