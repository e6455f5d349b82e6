// An NVML in which functions are missing, as in an old driver's or a broken one's: a copy of the
// simulated library, in a world's directory, in which they have no name that a loader would find.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace gpuyard::sim {

// Errc::invalid names the function that `library` does not have.
Result<void> write_library_without(const std::vector<std::string>& functions,
                                   const std::string& library, const std::string& copy);

}  // namespace gpuyard::sim
