// The speed of a GPU's PCIe link.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/world.h"

namespace gpuyard::sim {

// An idle link slows down, if the model does that; a faulty link is never fast.
inline std::uint32_t pcie_generation(const Gpu& gpu) {
  const PcieLink& link = gpu.model->pcie;
  const std::uint32_t usual =
      gpu.idle_for >= kIdleDelay ? link.idle_generation : link.max_generation;
  const std::uint32_t most = gpu.fault.pcie_generation;
  return most != 0 ? std::min(usual, most) : usual;
}

inline std::uint32_t pcie_width(const Gpu& gpu) {
  const std::uint32_t most = gpu.fault.pcie_width;
  return most != 0 ? std::min(gpu.model->pcie.max_width, most) : gpu.model->pcie.max_width;
}

// `share` of the link's capacity in one direction: about 250 MB/s per lane in the first generation,
// doubled with each further one.
inline std::uint64_t bytes_per_s(const Gpu& gpu, double share) {
  constexpr double kFirstGenerationLane = 246e6;
  const double lane = kFirstGenerationLane * static_cast<double>(1U << (pcie_generation(gpu) - 1));
  return static_cast<std::uint64_t>(share * lane * pcie_width(gpu));
}

}  // namespace gpuyard::sim
