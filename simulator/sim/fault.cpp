#include "sim/fault.h"

#include <algorithm>
#include <string>

#include "nvml/abi.h"

namespace gpuyard::sim {
namespace {

// In the order of Call.
constexpr std::array<std::string_view, kCallCount> kCallNames{"none",
                                                              "any",
                                                              "handle",
                                                              "identity",
                                                              "pci_info",
                                                              "memory_info",
                                                              "utilization_rates",
                                                              "temperature",
                                                              "power_usage",
                                                              "power_limits",
                                                              "total_energy",
                                                              "clock_info",
                                                              "throttle_reasons",
                                                              "performance_state",
                                                              "processes",
                                                              "modes",
                                                              "fan_speed",
                                                              "bar1_memory",
                                                              "memory_temperature",
                                                              "temperature_threshold",
                                                              "max_clocks",
                                                              "throttle_times",
                                                              "pcie_throughput",
                                                              "pcie_link",
                                                              "pcie_replays",
                                                              "ecc_errors",
                                                              "remapped_rows",
                                                              "retired_pages",
                                                              "nvlink",
                                                              "video_utilization",
                                                              "gpm",
                                                              "field_values",
                                                              "events",
                                                              "topology",
                                                              "firmware",
                                                              "set_power_limit",
                                                              "set_gpu_clocks",
                                                              "set_memory_clocks",
                                                              "set_persistence_mode",
                                                              "set_compute_mode",
                                                              "set_ecc_mode",
                                                              "clear_ecc_counters"};
static_assert(kCallCount == static_cast<std::size_t>(Call::clear_ecc_counters) + 1);

}  // namespace

std::string_view name_of(Call call) {
  const auto index = static_cast<std::size_t>(call);
  return index < kCallNames.size() ? kCallNames[index] : "unknown";
}

std::optional<Call> call_from_name(std::string_view name) {
  for (std::size_t i = 1; i < kCallNames.size(); ++i) {
    if (kCallNames[i] == name) return static_cast<Call>(i);
  }
  return std::nullopt;
}

Result<void> check_fault(const Fault& fault) {
  if (fault.lost > 1) return Error{Errc::invalid, "a GPU is lost or not"};
  for (const CallFault& call : fault.calls) {
    if (call.call == Call::none) continue;
    if (static_cast<std::size_t>(call.call) >= kCallCount) {
      return Error{Errc::invalid, "there is no driver call of this number"};
    }
    if ((call.code < nvml::kSuccess || call.code > nvml::kResetTypeNotSupported) &&
        call.code != nvml::kUnknown) {
      return Error{Errc::invalid, std::to_string(call.code) +
                                      " is no return code of NVML: those are 1 to 30, and 999"};
    }
    if (call.code == nvml::kSuccess && call.latency_ms == 0) {
      return Error{Errc::invalid, "a driver call that works and takes no time is no fault"};
    }
  }
  return {};
}

Result<void> add_fault(Fault& fault, const Fault& more) {
  Fault sum = fault;
  if (more.lost != 0) sum.lost = 1;
  for (const CallFault& added : more.calls) {
    if (added.call == Call::none) continue;
    auto place = std::ranges::find(sum.calls, added.call, &CallFault::call);
    if (place == sum.calls.end()) {
      place = std::ranges::find(sum.calls, Call::none, &CallFault::call);
    }
    if (place == sum.calls.end()) {
      return Error{Errc::conflict, std::to_string(kMaxCallFaults) +
                                       " driver calls of this GPU are broken already; that is all "
                                       "there is room for"};
    }
    *place = added;
  }
  fault = sum;
  return {};
}

}  // namespace gpuyard::sim
