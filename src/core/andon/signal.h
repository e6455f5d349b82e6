// What a rule can look at, beside the readings of the metric catalog: quantities that say something
// of a GPU, or of the machine. Data; where the numbers come from is facts.h's matter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace gpuyard::andon {

enum class Signal : std::uint8_t {
  // Of a GPU.
  temperature,
  slowdown_margin,
  memory_used,
  power_used,
  idle,
  reserved_idle,
  health,
  lost,
  unresponsive,
  stale,
  thermal_slowdown,
  power_brake,
  fan_stopped,
  pcie_degraded,
  squatters,
  // Of the machine.
  driver_down,
  journal_down,
  disk_free,
  sink_failing,
};
inline constexpr std::size_t kSignals = 19;

struct SignalRow {
  Signal signal;
  std::string_view name;  // in a rule: on = "memory_used_percent"
  bool of_node;
  std::string_view help;
};

// In the order of the enumeration.
std::span<const SignalRow> signals();
const SignalRow& row_of(Signal);

// A number, or nothing: not known.
class Signals {
 public:
  std::optional<double>& operator[](Signal signal) {
    return values_.at(static_cast<std::size_t>(signal));
  }
  const std::optional<double>& operator[](Signal signal) const {
    return values_.at(static_cast<std::size_t>(signal));
  }

 private:
  std::array<std::optional<double>, kSignals> values_;
};

}  // namespace gpuyard::andon
