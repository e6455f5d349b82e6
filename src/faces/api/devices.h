// Names of GPUs with commas, as parameters of routes have them.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/snapshot.h"

namespace gpuyard::api {

// The GPUs that these names mean, each once; "" means all. Errc::not_found for a name that none
// has, Errc::invalid for an empty one, Errc::unavailable where there is no driver.
Result<std::vector<DeviceInfo>> gpus_named(const Snapshot&, std::string_view names);

// Their ids; here "all" means all, too.
Result<std::vector<DeviceId>> ids_named(const Snapshot&, std::string_view names);

}  // namespace gpuyard::api
