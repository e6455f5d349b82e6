// The speed of a GPU's PCIe link.
#pragma once

#include <cstdint>

#include "sim/world.h"

namespace gpuyard::sim {

// A link that has nothing to carry slows down, where the model does that.
inline std::uint32_t pcie_generation(const Gpu& gpu) {
  const PcieLink& link = gpu.model->pcie;
  return gpu.idle_for >= kRestsAfter ? link.idle_generation : link.max_generation;
}

// `share` of what the link carries in one direction: about 250 MB/s per lane in the first
// generation, twice that in each next one.
inline std::uint64_t bytes_per_s(const Gpu& gpu, double share) {
  constexpr double kFirstGenerationLane = 246e6;
  const double lane = kFirstGenerationLane * static_cast<double>(1U << (pcie_generation(gpu) - 1));
  return static_cast<std::uint64_t>(share * lane * gpu.model->pcie.max_width);
}

}  // namespace gpuyard::sim
