// Chooses among the free GPUs so that linked ones stay together, for this claim and for the next.
// Pure.
#pragma once

#include <vector>

#include "core/lease/scheduler.h"

namespace gpuyard::lease {

// Returns `count` GPUs of `usable`: whole cliques first, of one NUMA node, then the coolest.
// Allocates nothing. REQUIRES: `usable` has at least `count` GPUs.
GpuSet choose_placement(const std::vector<Gpu>& gpus, const GpuSet& usable, unsigned count);

}  // namespace gpuyard::lease
