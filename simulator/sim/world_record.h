// What a client may know of a simulated GPU: who it is, and what its sensors say at one moment.
// Plain data, because both lie in a file that several programs map.
#pragma once

#include <array>
#include <cstdint>

#include "sim/fault.h"

namespace gpuyard::sim {

inline constexpr std::uint32_t kMaxGpus = 64;

// Fixed for the life of a world.
struct Identity {
  char model[32] = {};  // key of the model table's row
  char uuid[64] = {};
  char serial[32] = {};
  std::uint32_t pci_domain = 0;
  std::uint32_t pci_bus = 0;
  std::uint32_t pci_device = 0;
  std::uint32_t minor_number = 0;
};
static_assert(sizeof(Identity) == 144);

// Clock event reasons, as NVML numbers them.
inline constexpr std::uint64_t kReasonIdle = 0x1;
inline constexpr std::uint64_t kReasonPowerCap = 0x4;

// One GPU at one moment, in the units its driver reports.
struct GpuRecord {
  std::uint64_t memory_used_bytes = 0;  // by workloads, without what the driver reserves
  std::uint64_t energy_mj = 0;          // since the world began
  std::uint64_t clock_reasons = 0;
  std::uint32_t power_mw = 0;
  std::uint32_t power_limit_mw = 0;
  std::uint32_t sm_clock_mhz = 0;
  std::uint32_t memory_clock_mhz = 0;
  std::uint32_t video_clock_mhz = 0;
  std::uint32_t temperature_celsius = 0;
  std::uint32_t gpu_utilization_percent = 0;
  std::uint32_t memory_utilization_percent = 0;
  std::uint32_t workload_kind = 0;  // WorkloadKind
  std::uint32_t reserved = 0;
  Fault fault;
};

inline constexpr std::size_t kRecordWords = sizeof(GpuRecord) / sizeof(std::uint64_t);
using RecordWords = std::array<std::uint64_t, kRecordWords>;
static_assert(sizeof(GpuRecord) == sizeof(RecordWords));

}  // namespace gpuyard::sim
