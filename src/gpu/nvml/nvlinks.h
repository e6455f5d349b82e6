// Where the NVLinks of a GPU lead.
#pragma once

#include <string>
#include <vector>

#include "nvml/api.h"

namespace gpuyard::nvml {

// As DeviceInfo::nvlinks has it. Empty too where the driver does not say.
std::vector<std::string> nvlink_peers(const Api&, DeviceHandle);

}  // namespace gpuyard::nvml
