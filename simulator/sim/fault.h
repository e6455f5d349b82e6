// What is wrong with a simulated GPU. Part of the shared layout (plain data), obeyed by the
// simulated NVML inside the client's process, because that is where a real driver fails and blocks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace gpuyard::sim {

// The device calls a fault can name. New ones go to the end: the number is in the shared layout.
enum class Call : std::uint32_t {
  none,
  any,     // every call on this GPU
  handle,  // looking the GPU up by index, UUID or PCI address
  identity,
  pci_info,
  memory_info,
  utilization_rates,
  temperature,
  power_usage,
  power_limits,
  total_energy,
  clock_info,
  throttle_reasons,
  performance_state,
  processes,
  modes,
  fan_speed,
  bar1_memory,
  memory_temperature,
  temperature_threshold,
  max_clocks,  // also the lists of supported clocks
  throttle_times,
  pcie_throughput,
  pcie_link,
  pcie_replays,
  ecc_errors,
  remapped_rows,
  retired_pages,
  nvlink,
  video_utilization,  // encoder and decoder
  gpm,
  field_values,
  events,
  topology,
  firmware,  // VBIOS, inforom, GSP
  set_power_limit,
  set_gpu_clocks,
  set_memory_clocks,
  set_persistence_mode,
  set_compute_mode,
  set_ecc_mode,
  clear_ecc_counters,
};
inline constexpr std::size_t kCallCount = 42;

std::string_view name_of(Call);
std::optional<Call> call_from_name(std::string_view);

inline constexpr std::uint32_t kNeverReturns = UINT32_MAX;

struct CallFault {
  Call call = Call::none;        // none: this entry is unused
  std::int32_t code = 0;         // NVML return code; 0: the call works, after its latency
  std::uint32_t latency_ms = 0;  // kNeverReturns: the call blocks for ever

  friend bool operator==(const CallFault&, const CallFault&) = default;
};

inline constexpr std::size_t kMaxCallFaults = 8;

// A default Fault means a healthy GPU. A call obeys the entry that names it, else one for any.
struct Fault {
  std::uint32_t lost = 0;  // 1: fallen off the bus, every call answers "GPU is lost"
  std::uint32_t reserved = 0;
  std::array<CallFault, kMaxCallFaults> calls{};

  friend bool operator==(const Fault&, const Fault&) = default;
};

// Errc::invalid says what a driver could not do: answer a code that NVML does not have, or fail in
// a call that is none.
Result<void> check_fault(const Fault&);

// Makes `fault` worse by `more`: lost if either is, and each call of `more` fails as it says there.
// Errc::conflict, and nothing is changed, if that is more than kMaxCallFaults calls.
Result<void> add_fault(Fault& fault, const Fault& more);

}  // namespace gpuyard::sim
