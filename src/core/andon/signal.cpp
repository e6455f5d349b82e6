#include "andon/signal.h"

namespace gpuyard::andon {
namespace {

constexpr bool kOfNode = true;

constexpr std::array kRows = {
    SignalRow{Signal::temperature, "temperature_c", false, "Core temperature, degrees Celsius."},
    SignalRow{Signal::slowdown_margin, "slowdown_margin_c", false,
              "Degrees Celsius until the GPU slows itself down."},
    SignalRow{Signal::memory_used, "memory_used_percent", false, "Memory in use, of all."},
    SignalRow{Signal::power_used, "power_used_percent", false,
              "Power drawn, of the limit in force."},
    SignalRow{Signal::idle, "idle_s", false,
              "Since when processes compute on the GPU and its utilisation is exactly 0, seconds; "
              "0 while nobody does."},
    SignalRow{Signal::reserved_idle, "reserved_idle_s", false,
              "Since when the GPU is leased and its utilisation is exactly 0, seconds; 0 while it "
              "is not leased."},
    SignalRow{Signal::health, "health", false, "0 healthy, 1 degraded, 2 unhealthy."},
    SignalRow{Signal::lost, "lost", false, "1 if the driver says that the GPU is gone."},
    SignalRow{Signal::unresponsive, "unresponsive", false,
              "1 while the driver does not answer for the GPU, or would not open it."},
    SignalRow{Signal::stale, "stale_s", false,
              "Age of the newest temperature, power or memory reading, seconds."},
    SignalRow{Signal::thermal_slowdown, "thermal_slowdown", false,
              "1 while the hardware slows the GPU down because of heat."},
    SignalRow{Signal::power_brake, "power_brake", false,
              "1 while the power supply has the GPU slowed down."},
    SignalRow{Signal::fan_stopped, "fan_stopped", false,
              "1 while a fan stands still and the GPU is at 70 degrees Celsius or more."},
    SignalRow{Signal::pcie_degraded, "pcie_degraded", false,
              "1 while the GPU works over fewer PCIe lanes, or a lower generation, than it could."},
    SignalRow{Signal::squatters, "squatters", false,
              "Processes on the GPU that belong to no lease of it; unknown while leasing is shut."},
    SignalRow{Signal::driver_down, "driver_down", kOfNode, "1 while there is no driver to ask."},
    SignalRow{Signal::journal_down, "journal_down", kOfNode,
              "1 while what must survive the daemon cannot be written."},
    SignalRow{Signal::disk_free, "disk_free_percent", kOfNode,
              "Free space where the daemon keeps its state."},
    SignalRow{Signal::sink_failing, "sink_failing_s", kOfNode,
              "Since when the sink that fails longest delivers nothing, seconds."},
};
static_assert(kRows.size() == kSignals);

constexpr bool in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].signal) != i) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

std::span<const SignalRow> signals() {
  return kRows;
}

const SignalRow& row_of(Signal signal) {
  return kRows.at(static_cast<std::size_t>(signal));
}

}  // namespace gpuyard::andon
