// The signals: quantities of a GPU or of the machine that a rule can evaluate, beside the readings
// of the metric catalog. The table is data; FactCollector finds the numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace gpuyard::andon {

enum class Signal : std::uint8_t {
  // Signals of a GPU.
  temperature,
  slowdown_margin,
  memory_used,
  power_used,
  idle,
  reserved_idle,
  health,
  lost,
  missing,
  unresponsive,
  unreadable,
  inforom_corrupted,
  stale,
  thermal_slowdown,
  power_brake,
  fan_stopped,
  pcie_degraded,
  nvlinks_down,
  readings_contradict,
  recovery_needed,
  unleased_processes,
  plugin_hides,
  // Signals of the machine.
  driver_down,
  gpus,
  gpus_missing,
  journal_down,
  disk_free,
  sink_failing,
  certificate_days,
  certificate_refused,
  listeners_closed,
  token_days,
  slurm_trouble,
};
inline constexpr std::size_t kSignalCount = 33;

struct SignalRow {
  Signal signal;
  std::string_view name;  // in a rule: on = "memory_used_percent"
  bool of_node;
  std::string_view help;
};

// In the order of the enumeration.
std::span<const SignalRow> signals();
const SignalRow& row_of(Signal);

// A number for each signal; empty if it is not known.
class Signals {
 public:
  std::optional<double>& operator[](Signal signal) {
    return values_.at(static_cast<std::size_t>(signal));
  }
  const std::optional<double>& operator[](Signal signal) const {
    return values_.at(static_cast<std::size_t>(signal));
  }

 private:
  std::array<std::optional<double>, kSignalCount> values_;
};

}  // namespace gpuyard::andon
