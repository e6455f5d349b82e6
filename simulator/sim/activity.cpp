#include "sim/activity.h"

namespace gpuyard::sim {
namespace {

// In the order of Activity: graphics, SM, occupancy, integer, tensor, DRAM, FP64, FP32, FP16.
constexpr Activities kIdle{};
constexpr Activities kSteady{.parts = {1.0, 0.90, 0.50, 0.20, 0.10, 0.60, 0.30, 0.40, 0.05},
                             .pcie_tx = 0.02,
                             .pcie_rx = 0.03,
                             .nvlink = 0.05};
constexpr Activities kTraining{.parts = {1.0, 0.92, 0.45, 0.15, 0.55, 0.60, 0.00, 0.20, 0.30},
                               .pcie_tx = 0.05,
                               .pcie_rx = 0.10,
                               .nvlink = 0.45};
constexpr Activities kBursty{.parts = {1.0, 0.80, 0.30, 0.15, 0.35, 0.75, 0.00, 0.15, 0.25},
                             .decoder = 0.10,
                             .pcie_tx = 0.03,
                             .pcie_rx = 0.04,
                             .nvlink = 0.10};

}  // namespace

void Activities::add(const Activities& other, double share) {
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] += other.parts[i] * share;
  encoder += other.encoder * share;
  decoder += other.decoder * share;
  pcie_tx += other.pcie_tx * share;
  pcie_rx += other.pcie_rx * share;
  nvlink += other.nvlink * share;
}

const Activities& activities_of(WorkloadKind kind) {
  switch (kind) {
    case WorkloadKind::steady:
    case WorkloadKind::leak:
      return kSteady;
    case WorkloadKind::training:
    case WorkloadKind::starved:
      return kTraining;
    case WorkloadKind::bursty:
      return kBursty;
    case WorkloadKind::idle:
    case WorkloadKind::mixed:
      break;
  }
  return kIdle;
}

}  // namespace gpuyard::sim
