// An NVML that lacks functions, like an old driver's or a broken one's: a copy of the simulated
// library in a world's directory, in which a loader does not find the names of these functions.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace gpuyard::sim {

// Copies `library` without these functions. Errc::invalid names a function that `library` lacks.
Result<void> write_stripped_library(const std::vector<std::string>& functions,
                                    const std::string& library, const std::string& copy);

}  // namespace gpuyard::sim
