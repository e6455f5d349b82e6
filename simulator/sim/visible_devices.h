// Which GPUs a process may see: CUDA_VISIBLE_DEVICES as CUDA reads it.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuyard::sim {

// "0,2", or UUIDs or unambiguous beginnings of them ("GPU-ce75"), in any mixture; what follows the
// first name that is none of the `uuids`, whose index is the GPU's, is not visible. A GPU named
// twice makes the whole list invisible.
std::vector<int> visible_devices(std::string_view variable, std::span<const std::string> uuids);

// CUDA_VISIBLE_DEVICES in the environment the process was started with. Errc::not_found: it has
// none, or there is no such process; Errc::denied: it is somebody else's.
Result<std::string> cuda_visible_devices_of(pid_t);

}  // namespace gpuyard::sim
