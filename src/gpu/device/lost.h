// Whether a GPU is gone, as leases, rules and metrics are to say with one voice.
#pragma once

#include <optional>

#include "device/snapshot.h"

namespace gpuyard {

// The driver says so of any reading. A GPU that only does not answer is not lost, however bad its
// health; nor is one that cannot be opened now: it may be in use all the same.
bool is_lost(const DeviceState&);
// In the driver's words; nothing: it is not lost.
std::optional<Missing> lost_because(const DeviceState&);

}  // namespace gpuyard
