// Which parts of a GPU are busy, and how its memory and links are used, while it does something.
#pragma once

#include <array>

#include "sim/workload.h"
#include "sim/world_record.h"

namespace gpuyard::sim {

// Shares of what the GPU can do, 0 to 1.
struct Activities {
  std::array<double, kActivities> parts{};  // by Activity
  double encoder = 0;
  double decoder = 0;
  double pcie_tx = 0;
  double pcie_rx = 0;
  double nvlink = 0;

  double of(Activity part) const { return parts[static_cast<std::size_t>(part)]; }
  // Adds `share` times what `other` does.
  void add(const Activities& other, double share);
};

// At full load. A mixed workload is none: ask for the kind that its GPU got.
const Activities& activities_of(WorkloadKind);

}  // namespace gpuyard::sim
