// The faults of a simulated GPU. Part of the shared layout (plain data). The simulated NVML applies
// them inside the client's process, because a real driver fails and blocks there.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe/enum.hpp>

#include "base/result.h"

namespace gpuyard::sim {

struct Model;

// The device calls that a fault can name. Append new calls: the number is in the shared layout.
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
  driver,   // calls about no GPU: initialising, counting the GPUs, versions
  setters,  // every set_... call and clear_ecc_counters
};
BOOST_DESCRIBE_ENUM(Call, none, any, handle, identity, pci_info, memory_info, utilization_rates,
                    temperature, power_usage, power_limits, total_energy, clock_info,
                    throttle_reasons, performance_state, processes, modes, fan_speed, bar1_memory,
                    memory_temperature, temperature_threshold, max_clocks, throttle_times,
                    pcie_throughput, pcie_link, pcie_replays, ecc_errors, remapped_rows,
                    retired_pages, nvlink, video_utilization, gpm, field_values, events, topology,
                    firmware, set_power_limit, set_gpu_clocks, set_memory_clocks,
                    set_persistence_mode, set_compute_mode, set_ecc_mode, clear_ecc_counters,
                    driver, setters)
inline constexpr std::size_t kCallCount = 44;

std::string_view name_of(Call);
std::optional<Call> call_from_name(std::string_view);

inline constexpr std::uint32_t kInfiniteLatency = UINT32_MAX;  // until the fault is cleared

struct CallFault {
  Call call = Call::none;        // none: this entry is unused
  std::int32_t code = 0;         // NVML return code; 0: the call works, after its latency
  std::uint32_t latency_ms = 0;  // kInfiniteLatency: the call blocks until the fault is cleared
  std::uint32_t times = 0;       // how many calls of each client process fail; 0: every one
  std::uint64_t number = 0;      // unique in a world: distinguishes equal faults

  friend bool operator==(const CallFault&, const CallFault&) = default;
};

inline constexpr std::size_t kMaxCallFaults = 8;
using CallFaults = std::array<CallFault, kMaxCallFaults>;

// The fault that applies to a call: the one that names it, else for a setter the one for all
// setters, else the one for any call.
std::optional<std::size_t> fault_of(const CallFaults&, Call);

// The recovery that the driver requests for a GPU: nvmlDeviceGpuRecoveryAction_t.
enum class RecoveryAction : std::uint32_t { none, reset, reboot, drain_p2p, drain_and_reset };
BOOST_DESCRIBE_ENUM(RecoveryAction, none, reset, reboot, drain_p2p, drain_and_reset)

// Reads a name such as "drain_p2p"; `none` for an unknown one.
RecoveryAction recovery_action_from_name(std::string_view);
// Returns the names of all actions but `none`.
std::vector<std::string_view> recovery_action_names();

// A default Fault means a healthy GPU. Every field except `calls` is a state: 1 or a value while it
// lasts.
struct Fault {
  std::uint32_t lost = 0;            // fallen off the bus, every call answers "GPU is lost"
  std::uint32_t reset_required = 0;  // only identity calls work, until a reset
  std::uint32_t power_brake = 0;     // the board's own brake halves the clocks
  std::uint32_t rows_pending = 0;    // a row remapping waits for a reset
  std::uint32_t rows_failed = 0;     // a row remapping failed
  std::uint32_t fans_stuck = 0;      // at fan_percent, whatever the temperature
  std::uint32_t fan_percent = 0;
  std::uint32_t pcie_generation = 0;  // at most; 0: what the model has
  std::uint32_t pcie_width = 0;
  std::uint32_t nvlinks_down = 0;  // this many, from link 0 on
  RecoveryAction recovery_action{};
  std::uint32_t reserved = 0;
  CallFaults calls{};

  friend bool operator==(const Fault&, const Fault&) = default;
};

// Errc::invalid: the fault has a return code that NVML does not have, or fails a call that does not
// exist.
Result<void> check_fault(const Fault&);

// Errc::unsupported: a GPU of this model cannot have the fault.
Result<void> check_fault_on(const Model&, const Fault&);

// Adds `more` to `fault`: the states of both hold, and each call of `more` fails as `more` says.
// Errc::conflict, without any change, if more than kMaxCallFaults calls would fail.
Result<void> add_fault(Fault& fault, const Fault& more);

// The states of a fault without its calls, in the words of status and scenarios: "lost",
// "pcie_width 8".
std::vector<std::string> conditions_of(const Fault&);

}  // namespace gpuyard::sim
