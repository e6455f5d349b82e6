// The GPUs that a process may see: CUDA_VISIBLE_DEVICES as CUDA reads it.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuyard::sim {

// Reads "0,2", or UUIDs or unambiguous beginnings of them ("GPU-ce75"), in any mixture. `uuids` is
// by GPU index. The first unknown name and everything after it are not visible. A GPU named twice
// makes the whole list invisible.
std::vector<int> visible_devices(std::string_view variable, std::span<const std::string> uuids);

// Returns CUDA_VISIBLE_DEVICES of the environment in which the process was started.
// Errc::not_found: it is not set, or there is no such process; Errc::denied: the process is another
// user's.
Result<std::string> cuda_visible_devices_of(pid_t);

}  // namespace gpuyard::sim
