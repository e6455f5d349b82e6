// The GPUs of a snapshot, as leasing sees them: which may be granted, and how they are linked.
#pragma once

#include <cstdint>
#include <vector>

#include "core/lease/gpu_pool.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::daemon {

// Returns one for each GPU of the snapshot, in its order. A GPU that is withheld has the
// reason as a word: lost, unresponsive, unhealthy or mig_enabled.
std::vector<lease::PoolGpu> pool_gpus(const Snapshot&);

// Returns the memory of processes that only draw, as far as it is known, up to what a screen needs.
// More than that means a process that computes with a drawing API.
std::int64_t drawing_bytes(const DeviceState&);

}  // namespace gpuyard::daemon
