// The settings of a simulated GPU that a client can change through NVML's setters, and the log of
// these changes. Plain data: it goes over the world server's socket and lies in the shared file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe/enum.hpp>

namespace gpuyard::sim {

// The values of each setting, two at most, are in brackets. Append new ones: the number is in the
// shared layout. The last three are no setters: they restore settings too, and are logged among the
// writes so that the order shows. driver_* concern no single GPU: kEveryGpu.
enum class WriteKind : std::uint32_t {
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
BOOST_DESCRIBE_ENUM(WriteKind, power_limit, gpu_locked_clocks, gpu_locked_clocks_reset,
                    memory_locked_clocks, memory_locked_clocks_reset, persistence_mode,
                    compute_mode, ecc_mode, clear_ecc_counters, reset, driver_unloaded,
                    driver_loaded)

std::string_view name_of(WriteKind);

struct SettingWrite {
  WriteKind kind{};
  std::uint32_t gpu = 0;
  std::array<std::uint64_t, 2> values{};
};

// Returns how many of the two values this setting uses.
std::size_t value_count(WriteKind);

// One write that a world server applied or refused, in that order.
struct WriteRecord {
  std::uint64_t sequence = 0;  // 1 for a world's first
  std::uint64_t at_ns = 0;     // CLOCK_BOOTTIME
  SettingWrite write;
  std::int32_t nvml_code = 0;  // the answer to the caller
  std::uint32_t peer_pid = 0;
  std::uint32_t peer_uid = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(WriteRecord) == 56);

// An event that NVML reports through an event set.
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

// A setter call from inside a client: one request to the world server, one NVML return code back.
// Part of the simulated NVML, so it needs only libc and the C++ runtime. The write is in force for
// every reader when this returns 0. Takes at most 2 s for each transfer. 9 (driver not loaded):
// there is no world server; 10 (timeout): it does not answer; any other code is the world server's
// decision. `directory` is WorldReader::directory(). Any thread.
std::int32_t call_setter(const std::string& directory, const SettingWrite&);

// The users who may call NVML's setters; the kernel reports the caller. Append new ones: the number
// is in the shared layout.
enum class SetterAccess : std::uint32_t {
  owner,     // root and the world server's user
  everyone,  // without any check
  root,      // as with a real driver
  nobody,    // as with a real driver and a program that lacks the privilege, even for root
};

std::string_view name_of(SetterAccess);
std::optional<SetterAccess> setter_access_from_name(std::string_view);
std::vector<std::string_view> setter_access_names();

}  // namespace gpuyard::sim
