// Whether a GPU is gone, as rules and metrics are to say with one voice.
#pragma once

#include "device/snapshot.h"

namespace gpuyard {

// The driver says so. A GPU that only does not answer is not lost, however bad its health.
bool is_lost(const DeviceState&);

}  // namespace gpuyard
