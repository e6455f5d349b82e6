// Names of GPUs, separated by commas, as in the parameters of routes.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::api {

// Returns the GPUs that these names mean, each once; "" means all. Errc::not_found for a name that
// no GPU has, Errc::invalid for an empty name, Errc::unavailable without a driver.
Result<std::vector<DeviceInfo>> resolve_gpus(const Snapshot&, std::string_view names);

// Returns the ids of the named GPUs; here "all" means all, too.
Result<std::vector<DeviceId>> resolve_gpu_ids(const Snapshot&, std::string_view names);

}  // namespace gpuyard::api
