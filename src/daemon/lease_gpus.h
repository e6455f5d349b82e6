// The GPUs of a snapshot, as leasing sees them: which may be handed out, and where they stand.
#pragma once

#include <vector>

#include "device/snapshot.h"
#include "lease/leases.h"

namespace gpuyard::daemon {

// One for each GPU of the snapshot, in its order. A GPU that may not be handed out says why, as a
// word: lost, unresponsive, unhealthy or mig_enabled.
std::vector<lease::PoolGpu> pool_gpus(const Snapshot&);

// The memory of processes that only draw, as far as it is known, and as a screen needs it: more is
// somebody who computes with the means of drawing.
std::int64_t drawing_bytes(const DeviceState&);

}  // namespace gpuyard::daemon
