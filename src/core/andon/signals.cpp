#include "core/andon/signals.h"

#include <array>

namespace gpuyard::andon {
namespace {

constexpr bool kOfNode = true;

constexpr std::array kSignalRows = {
    SignalRow{Signal::temperature, "temperature_c", false, "Core temperature, degrees Celsius."},
    SignalRow{Signal::slowdown_margin, "slowdown_margin_c", false,
              "Degrees Celsius below the slowdown temperature."},
    SignalRow{Signal::memory_used, "memory_used_percent", false,
              "Share of the memory in use, percent."},
    SignalRow{Signal::power_used, "power_used_percent", false,
              "Power draw as a share of the enforced limit, percent."},
    SignalRow{Signal::idle, "idle_s", false,
              "Seconds for which utilisation has been exactly 0 while compute processes are on the "
              "GPU; 0 without such processes."},
    SignalRow{Signal::reserved_idle, "reserved_idle_s", false,
              "Seconds for which utilisation has been exactly 0 while the GPU is leased; 0 while "
              "it is not leased."},
    SignalRow{Signal::health, "health", false, "0 healthy, 1 degraded, 2 unhealthy."},
    SignalRow{Signal::lost, "lost", false, "1 if the driver lists the GPU and reports it as lost."},
    SignalRow{Signal::missing, "missing", false,
              "1 while the driver does not list a GPU that this machine had."},
    SignalRow{Signal::unresponsive, "unresponsive", false,
              "1 while a driver call on the GPU does not return."},
    SignalRow{Signal::unreadable, "unreadable", false,
              "1 while the driver cannot open the GPU, or every reading of it fails."},
    SignalRow{Signal::inforom_corrupted, "inforom_corrupted", false,
              "1 while the driver reports the infoROM of the board as corrupted."},
    SignalRow{Signal::stale, "stale_s", false,
              "Age of the newest temperature, power or memory reading that had a value, seconds."},
    SignalRow{Signal::thermal_slowdown, "thermal_slowdown", false,
              "1 while the hardware throttles the GPU because of heat."},
    SignalRow{Signal::power_brake, "power_brake", false,
              "1 while the power supply throttles the GPU (power brake)."},
    SignalRow{Signal::fan_stopped, "fan_stopped", false,
              "1 while a fan is stopped and the GPU is at 70 degrees Celsius or more."},
    SignalRow{Signal::pcie_degraded, "pcie_degraded", false,
              "1 while the GPU uses fewer PCIe lanes or a lower PCIe generation than it could."},
    SignalRow{
        Signal::nvlinks_down, "nvlinks_down", false,
        "Number of NVLinks that were up since the daemon started and are down; unknown in MIG "
        "mode."},
    SignalRow{Signal::readings_contradict, "readings_contradict", false,
              "1 while the power reading and the energy counter contradict each other: one is at "
              "least 3 times the other and 100 W above it."},
    SignalRow{
        Signal::recovery_needed, "recovery_needed", false,
        "Number of the recovery that the driver requests for the GPU; 0 for none, and for one "
        "that concerns its IMEX domain alone; unknown for a number that gpuyard does not know."},
    SignalRow{
        Signal::unleased_processes, "squatters", false,
        "Processes on the GPU that belong to no lease of it; unknown while leasing is "
        "unavailable. Where Slurm or Kubernetes allocates the GPUs: those of no job or pod for "
        "30 s; unknown until it has reported."},
    SignalRow{
        Signal::plugin_hides, "plugin_hides", false,
        "1 while Kubernetes' device plugin offers other GPUs to pods, and not this one, which "
        "is healthy; 0 while it offers the GPU, and for one that is unhealthy, quarantined, "
        "cordoned or in MIG mode; unknown without a report of the agent in the last 3 min."},
    SignalRow{Signal::driver_down, "driver_down", kOfNode, "1 while no driver is available."},
    SignalRow{Signal::gpus, "gpus", kOfNode,
              "Number of GPUs that the driver lists; unknown without a driver."},
    SignalRow{Signal::gpus_missing, "gpus_missing", kOfNode,
              "Number of GPUs that this machine had and the driver does not list."},
    SignalRow{Signal::journal_down, "journal_down", kOfNode,
              "1 while the daemon cannot write its persistent state."},
    SignalRow{Signal::disk_free, "disk_free_percent", kOfNode,
              "Free space on the disk with the daemon's state, percent."},
    SignalRow{Signal::sink_failing, "sink_failing_s", kOfNode,
              "How long the longest-failing sink has delivered nothing, seconds."},
    SignalRow{Signal::certificate_days, "certificate_days", kOfNode,
              "Days until the certificate in use expires; unknown if TLS is off."},
    SignalRow{Signal::certificate_refused, "certificate_refused", kOfNode,
              "1 while the files of the certificate are unusable: the previous one stays in use, "
              "or TLS is unavailable."},
    SignalRow{Signal::listeners_closed, "listeners_closed", kOfNode,
              "Configured addresses and sockets that are closed, because they are in use or not "
              "present. tls.listen without a certificate is not counted."},
    SignalRow{Signal::token_days, "token_days", kOfNode,
              "Days until the next expiry among tokens created for four weeks or more."},
    SignalRow{Signal::slurm_trouble, "slurm_trouble", kOfNode, "1 while a Slurm hook is failing."},
};
static_assert(kSignalRows.size() == kSignalCount);

constexpr bool is_ordered() {
  for (std::size_t i = 0; i < kSignalRows.size(); ++i) {
    if (static_cast<std::size_t>(kSignalRows[i].signal) != i) return false;
  }
  return true;
}
static_assert(is_ordered());

}  // namespace

std::span<const SignalRow> signals() {
  return kSignalRows;
}

const SignalRow& row_of(Signal signal) {
  return kSignalRows.at(static_cast<std::size_t>(signal));
}

}  // namespace gpuyard::andon
