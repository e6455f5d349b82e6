// How GPUs are wired to each other, from what each of them says of its own links.
#pragma once

#include <optional>
#include <vector>

#include "device/device.h"

namespace gpuyard {

// For each GPU, in order: the number of the group it is in, in which every GPU has an NVLink to
// every other one or to the same switches. Nothing: it has none. GPUs that are linked to each other
// in more than one such group are in the first.
std::vector<std::optional<unsigned>> nvlink_cliques(const std::vector<DeviceInfo>&);

}  // namespace gpuyard
