// What is said on a keeper's socket: one Command datagram, one Reply datagram, fixed size, plain
// data. Fixed structs rather than text, because the simulated NVML speaks it from inside foreign
// programs.
#pragma once

#include <cstdint>
#include <type_traits>

#include "sim/fault.h"
#include "sim/workload.h"

namespace gpuyard::sim {

inline constexpr const char* kKeeperSocket = "keeper.sock";
inline constexpr std::uint32_t kCommandVersion = 2;

enum class Verb : std::uint32_t { stop = 1, inject = 2, set_load = 3, clear_faults = 4 };

struct Command {
  std::uint32_t version = kCommandVersion;
  Verb verb{};
  std::uint32_t gpu = 0;
  WorkloadKind workload_kind{};  // set_load
  double load = 0;               // set_load
  std::uint64_t vram_bytes = 0;  // set_load
  Fault fault;                   // inject
};
static_assert(std::is_trivially_copyable_v<Command>);

struct Reply {
  std::uint32_t failed = 0;
  std::uint32_t errc = 0;  // Errc, when failed
  char message[248] = {};
};
static_assert(sizeof(Reply) == 256);

}  // namespace gpuyard::sim
