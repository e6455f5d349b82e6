// Finds a GPU of a world by one of its names.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuyard::sim {

// Returns the index of the GPU with this index, UUID, or PCI address in either spelling; kEveryGpu
// for "all". Errc::not_found: there is no such GPU, or it is unplugged. Only the world server
// checks that an index is in use.
Result<int> find_gpu_index(const std::string& directory, std::string_view name);

}  // namespace gpuyard::sim
