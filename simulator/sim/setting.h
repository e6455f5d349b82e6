// What a client can change of a simulated GPU through NVML's setters, and the record of who did.
// Plain data: it goes over the keeper's socket and lies in the shared file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gpuyard::sim {

// The two values of each in brackets. New ones go to the end: the number is in the shared layout.
// The last three are no setters: what else puts settings back has its place among the writes, so
// that the order of both can be seen. driver_* are of no one GPU: kEveryGpu.
enum class Setting : std::uint32_t {
  power_limit,                 // (milliwatts)
  gpu_locked_clocks,           // (lowest MHz, highest MHz)
  gpu_locked_clocks_reset,     // ()
  memory_locked_clocks,        // (lowest MHz, highest MHz)
  memory_locked_clocks_reset,  // ()
  persistence_mode,            // (0 or 1)
  compute_mode,                // (nvmlComputeMode_t)
  ecc_mode,                    // (0 or 1): pending until a reset
  clear_ecc_counters,          // (0: volatile, 1: aggregate)
  reset,                       // ()
  driver_unloaded,             // ()
  driver_loaded,               // (its session)
};

std::string_view name_of(Setting);

struct SettingWrite {
  Setting setting{};
  std::uint32_t gpu = 0;
  std::array<std::uint64_t, 2> values{};
};

// How many of its two values one has.
std::size_t values_of(Setting);

// One write that a keeper took or refused, in the order in which it did.
struct WriteRecord {
  std::uint64_t sequence = 0;  // 1 for a world's first
  std::uint64_t at_ns = 0;     // CLOCK_BOOTTIME
  SettingWrite write;
  std::int32_t nvml_code = 0;  // what the caller was answered
  std::uint32_t peer_pid = 0;
  std::uint32_t peer_uid = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(WriteRecord) == 56);

// What NVML reports through an event set.
struct EventRecord {
  std::uint64_t sequence = 0;  // 1 for a world's first
  std::uint64_t at_ns = 0;     // CLOCK_BOOTTIME
  std::uint64_t type = 0;      // nvmlEventType: 0x1 single-bit, 0x2 double-bit ECC, 0x8 Xid, ...
  std::uint64_t data = 0;      // the Xid
  std::uint32_t gpu = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(EventRecord) == 40);

inline constexpr std::uint64_t kEventSingleBitEcc = 0x1;
inline constexpr std::uint64_t kEventDoubleBitEcc = 0x2;
inline constexpr std::uint64_t kEventXid = 0x8;
inline constexpr unsigned kMaxXid = 999;

}  // namespace gpuyard::sim
