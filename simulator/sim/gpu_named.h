// A GPU of a world by one of its names.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuyard::sim {

// The index of the GPU that this names: its index, UUID, or PCI address in either spelling;
// "all": kEveryGpu. Errc::not_found: there is none, or it is unplugged. Whether a GPU has the index
// is for the keeper to say.
Result<int> gpu_named(const std::string& directory, std::string_view name);

}  // namespace gpuyard::sim
