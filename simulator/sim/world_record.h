// The data of a simulated GPU that a client may read: its identity, and its readings at one moment.
// Plain data, because both lie in a file that several programs map.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <boost/describe/enum.hpp>

#include "sim/fault.h"
#include "sim/setting.h"

namespace gpuyard::sim {

inline constexpr std::uint32_t kMaxGpus = 64;
// As the GPU of a command: every GPU that is plugged in. As the GPU of a fault in calls: the
// driver's own calls, whichever GPU they are about.
inline constexpr std::int32_t kEveryGpu = INT32_MAX;
inline constexpr std::uint32_t kMaxFans = 2;
inline constexpr std::uint32_t kMaxNvLinks = 18;
inline constexpr const char* kDefaultDriver = "535.104.05";

// Fixed for the life of a world.
struct Identity {
  char model[32] = {};  // key of the model table's row
  char uuid[64] = {};
  char serial[32] = {};  // "" where the model has none
  std::uint32_t pci_domain = 0;
  std::uint32_t pci_bus = 0;
  std::uint32_t pci_device = 0;
  std::uint32_t minor_number = 0;
};
static_assert(sizeof(Identity) == 144);

// Clock event reasons, as NVML numbers them.
inline constexpr std::uint64_t kReasonIdle = 0x1;
inline constexpr std::uint64_t kReasonApplicationClocks = 0x2;  // locked clocks count as these
inline constexpr std::uint64_t kReasonPowerCap = 0x4;
inline constexpr std::uint64_t kReasonSoftwareThermal = 0x20;
inline constexpr std::uint64_t kReasonHardwareThermal = 0x40;
inline constexpr std::uint64_t kReasonHardwareSlowdown = 0x8;  // together with one of its causes
inline constexpr std::uint64_t kReasonPowerBrake = 0x80;

// The locations of memory errors: nvmlMemoryLocation_t.
enum class EccLocation : std::uint32_t {
  l1_cache,
  l2_cache,
  device_memory,
  register_file,
  texture_memory,
  texture_shared_memory,
  cbu,
  sram,
};
BOOST_DESCRIBE_ENUM(EccLocation, l1_cache, l2_cache, device_memory, register_file, texture_memory,
                    texture_shared_memory, cbu, sram)
inline constexpr std::size_t kEccLocations = 8;
using EccCounts = std::array<std::uint64_t, kEccLocations>;  // by EccLocation

// Parts of a GPU whose busy time is counted, for GPM's percentages.
enum class Activity : std::uint32_t {
  graphics,  // some kernel was resident
  sm,
  occupancy,
  integer,
  tensor,
  dram,
  fp64,
  fp32,
  fp16,
};
inline constexpr std::size_t kActivities = 9;

// Remapped rows as NVML counts them, and its histogram of the spare rows that the banks have left.
struct RowRemapping {
  std::uint32_t corrected_rows = 0;
  std::uint32_t uncorrected_rows = 0;
  std::uint32_t pending = 0;  // 1: needs a reset
  std::uint32_t failed = 0;
  std::uint32_t banks_max = 0;
  std::uint32_t banks_high = 0;
  std::uint32_t banks_partial = 0;
  std::uint32_t banks_low = 0;
  std::uint32_t banks_none = 0;
  std::uint32_t reserved = 0;
};

// One GPU at one moment, in its driver's units. A value that the model does not have is 0 here; the
// model's row says so.
struct GpuRecord {
  std::uint64_t elapsed_us = 0;         // simulated time since the world began
  std::uint64_t memory_used_bytes = 0;  // by workload and processes, without the driver's reserve
  std::uint64_t energy_mj = 0;          // since the world began
  std::uint64_t clock_reasons = 0;

  // Counters since the world began; differences of two records give rates and shares.
  std::array<std::uint64_t, kActivities> activity_us{};  // by Activity
  std::uint64_t encoder_us = 0;
  std::uint64_t decoder_us = 0;
  std::uint64_t pcie_tx_bytes = 0;        // from the GPU
  std::uint64_t pcie_rx_bytes = 0;        // to the GPU
  std::uint64_t pcie_tx_bytes_per_s = 0;  // of this moment
  std::uint64_t pcie_rx_bytes_per_s = 0;
  std::array<std::uint64_t, kMaxNvLinks> nvlink_tx_bytes{};
  std::array<std::uint64_t, kMaxNvLinks> nvlink_rx_bytes{};
  // Time spent with each reason in force.
  std::uint64_t power_cap_ns = 0;
  std::uint64_t application_clocks_ns = 0;
  std::uint64_t software_thermal_ns = 0;
  std::uint64_t hardware_thermal_ns = 0;

  EccCounts ecc_volatile_corrected{};
  EccCounts ecc_volatile_uncorrected{};
  EccCounts ecc_aggregate_corrected{};
  EccCounts ecc_aggregate_uncorrected{};
  RowRemapping rows;                           // MemoryRepair::remapped_rows
  std::uint32_t retired_pages_single_bit = 0;  // MemoryRepair::retired_pages
  std::uint32_t retired_pages_double_bit = 0;
  std::uint32_t retired_pages_pending = 0;  // 1: needs a reset

  // Sensors.
  std::uint32_t power_mw = 0;          // of this moment
  std::uint32_t power_average_mw = 0;  // over about the last second
  std::uint32_t sm_clock_mhz = 0;
  std::uint32_t memory_clock_mhz = 0;
  std::uint32_t video_clock_mhz = 0;
  std::uint32_t temperature_celsius = 0;
  std::uint32_t memory_temperature_celsius = 0;
  std::array<std::uint32_t, kMaxFans> fan_percent{};
  std::array<std::uint32_t, kMaxFans> fan_rpm{};
  std::uint32_t gpu_utilization_percent = 0;
  std::uint32_t memory_utilization_percent = 0;
  std::uint32_t encoder_utilization_percent = 0;
  std::uint32_t decoder_utilization_percent = 0;
  std::uint32_t performance_state = 0;
  std::uint32_t pcie_generation = 0;
  std::uint32_t pcie_width = 0;
  std::uint32_t pcie_replays = 0;
  std::uint32_t nvlinks_up = 0;  // bit per link
  // Settings in force.
  std::uint32_t power_limit_mw = 0;
  std::uint32_t locked_sm_min_mhz = 0;  // both 0: not locked
  std::uint32_t locked_sm_max_mhz = 0;
  std::uint32_t locked_memory_min_mhz = 0;
  std::uint32_t locked_memory_max_mhz = 0;
  std::uint32_t persistence_mode = 0;
  std::uint32_t compute_mode = 0;  // nvmlComputeMode_t
  std::uint32_t ecc_mode = 0;
  std::uint32_t ecc_mode_pending = 0;
  std::uint32_t mig_mode = 0;

  std::uint32_t workload_kind = 0;  // WorkloadKind
  std::uint32_t process_count = 0;
  // The part of its requested share that each process gets: 1000 while all shares fit the GPU.
  std::uint32_t process_share_permille = 1000;
  // The times that it was plugged in. A handle is valid only for the number at which it was made.
  std::uint32_t plug_count = 1;
  std::uint32_t plugged = 1;
  Fault fault;
};

inline constexpr std::size_t kRecordWords = sizeof(GpuRecord) / sizeof(std::uint64_t);
using RecordWords = std::array<std::uint64_t, kRecordWords>;
static_assert(sizeof(GpuRecord) == sizeof(RecordWords));
static_assert(std::has_unique_object_representations_v<GpuRecord>);  // no padding

enum class TimeMode : std::uint32_t { real, scaled, stepped };

// The state of the driver itself at one moment, and the GPUs that it drives.
struct DriverRecord {
  std::uint64_t session = 1;     // of the loaded driver; rises by 1 with each load
  std::uint64_t elapsed_ms = 0;  // simulated time since the world began
  std::uint32_t loaded = 1;
  std::uint32_t process_entry_bytes = 24;  // of the newest lists; some 535s: 16 or 32
  char version[32] = {};
  TimeMode time_mode{};
  std::uint32_t speed_permille = 1000;
  std::uint32_t timeline_entries = 0;  // of the world's scenario
  std::uint32_t timeline_done = 0;
  std::uint32_t timeline_refused = 0;  // of those done
  std::uint32_t gpu_count = 0;         // plugged in
  SetterAccess setters{};
  std::uint32_t reserved = 0;
  std::array<std::uint8_t, kMaxGpus> order{};  // by index: the place of the GPU
  CallFaults calls{};                          // faults of every GPU's calls
};

using DriverWords = std::array<std::uint64_t, sizeof(DriverRecord) / sizeof(std::uint64_t)>;
static_assert(sizeof(DriverRecord) == sizeof(DriverWords));
static_assert(std::has_unique_object_representations_v<DriverRecord>);

// The most processes on all GPUs of a world together.
inline constexpr std::uint32_t kMaxProcesses = 16'384;

enum class ProcessKind : std::uint32_t { compute, graphics };

struct ProcessRecord {
  // As the world server's PID namespace sees it; above kMaxRealPid: synthetic.
  std::uint32_t pid = 0;
  ProcessKind kind = ProcessKind::compute;
  std::uint64_t memory_bytes = 0;
  std::uint64_t start_time = 0;  // clock ticks since boot, as /proc/<pid>/stat has it; 0: synthetic
  std::uint64_t since_ns = 0;    // CLOCK_BOOTTIME at which it started to use this GPU
  // The shares of the GPU's time that it requests. WorldReader::processes() converts them to
  // percent of the GPU's capacity.
  std::uint32_t load_permille = 0;
  std::uint32_t memory_load_permille = 0;
  std::uint32_t encoder_permille = 0;
  std::uint32_t decoder_permille = 0;
};
static_assert(sizeof(ProcessRecord) == 48);

// The kernel gives no pid above this (PID_MAX_LIMIT).
inline constexpr std::uint32_t kMaxRealPid = 4'194'304;

using ProcessWords = std::array<std::uint64_t, sizeof(ProcessRecord) / sizeof(std::uint64_t)>;

// A process on one GPU at one moment, in NVML's units.
struct ProcessUse {
  std::uint32_t pid = 0;
  ProcessKind kind = ProcessKind::compute;
  std::uint64_t memory_bytes = 0;
  std::uint64_t start_time = 0;
  std::uint64_t since_ns = 0;
  std::uint32_t sm_percent = 0;
  std::uint32_t memory_percent = 0;
  std::uint32_t encoder_percent = 0;
  std::uint32_t decoder_percent = 0;
};

}  // namespace gpuyard::sim
