#include "device/catalog.h"

#include <algorithm>
#include <array>
#include <string>

namespace gpuyard {
namespace {

constexpr std::array kUnits = {
    UnitInfo{"", 1, 1, ""},          UnitInfo{"_percent", 1, 1, "%"},
    UnitInfo{"_celsius", 1, 1, "C"}, UnitInfo{"_bytes", 1, 1, "B"},
    UnitInfo{"_w", 1000, 1e-3, "W"}, UnitInfo{"_j", 1000, 1e-3, "J"},
    UnitInfo{"_mhz", 1, 1e6, "MHz"},
};

using enum Kind;
constexpr auto kIdentity = Subject::device_identity;
constexpr auto kDevice = Subject::device;
constexpr auto kDriver = Subject::driver;
constexpr auto kOne = Dimension::none;

constexpr std::array kCatalog = {
    Row{Metric::name, "name", Unit::none, text, kIdentity, kOne, "", "name", "DCGM_FI_DEV_NAME",
        "Product name of the GPU."},
    Row{Metric::uuid, "uuid", Unit::none, text, kIdentity, kOne, "", "uuid", "DCGM_FI_DEV_UUID",
        "Globally unique identifier of the GPU; the key by which gpuyard knows it."},
    Row{Metric::pci_address, "pci_address", Unit::none, text, kIdentity, kOne, "", "pci.bus_id",
        "DCGM_FI_DEV_PCI_BUSID", "PCI address as lspci -D writes it."},
    Row{Metric::memory_total, "memory_total", Unit::bytes, gauge, kDevice, kOne,
        "gpu_memory_total_bytes", "memory.total", "DCGM_FI_DEV_FB_TOTAL",
        "Installed device memory."},
    Row{Metric::memory_free, "memory_free", Unit::bytes, gauge, kDevice, kOne,
        "gpu_memory_free_bytes", "memory.free", "DCGM_FI_DEV_FB_FREE",
        "Device memory nobody has allocated."},
    Row{Metric::memory_used, "memory_used", Unit::bytes, gauge, kDevice, kOne,
        "gpu_memory_used_bytes", "memory.used", "DCGM_FI_DEV_FB_USED",
        "Device memory allocated by all processes, and what the driver reserves: total - free."},
    Row{Metric::utilization_gpu, "utilization_gpu", Unit::percent, gauge, kDevice, kOne,
        "gpu_utilization_percent", "utilization.gpu", "DCGM_FI_DEV_GPU_UTIL",
        "Share of the driver's last sample period in which a kernel was resident."},
    Row{Metric::temperature_core, "temperature_core", Unit::celsius, gauge, kDevice, kOne,
        "gpu_temperature_celsius", "temperature.gpu", "DCGM_FI_DEV_GPU_TEMP", "Core temperature."},
    Row{Metric::power_draw, "power_draw", Unit::milliwatts, gauge, kDevice, kOne, "gpu_power_watts",
        "power.draw", "DCGM_FI_DEV_POWER_USAGE",
        "Power drawn by the whole board; a one-second average on most GPUs since Ampere."},
    Row{Metric::power_limit, "power_limit", Unit::milliwatts, gauge, kDevice, kOne,
        "gpu_power_limit_watts", "enforced.power.limit", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
        "Power limit the GPU enforces now."},
    Row{Metric::energy_total, "energy_total", Unit::millijoules, counter, kDevice, kOne,
        "gpu_energy_joules_total", "", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "Energy used since the driver was loaded."},
    Row{Metric::clock_sm, "clock_sm", Unit::megahertz, gauge, kDevice, kOne, "gpu_sm_clock_hertz",
        "clocks.sm", "DCGM_FI_DEV_SM_CLOCK", "Current clock of the streaming multiprocessors."},
    Row{Metric::driver_version, "driver_version", Unit::none, text, kDriver, kOne, "",
        "driver_version", "DCGM_FI_DRIVER_VERSION", "Version of the kernel driver."},
    Row{Metric::nvml_version, "nvml_version", Unit::none, text, kDriver, kOne, "", "",
        "DCGM_FI_NVML_VERSION", "Version of the NVML library."},
    Row{Metric::cuda_driver_version, "cuda_driver_version", Unit::none, text, kDriver, kOne, "", "",
        "DCGM_FI_CUDA_DRIVER_VERSION", "Highest CUDA version the driver supports."},
};
static_assert(kCatalog.size() == kMetricCount);

constexpr std::array kMemoryRows = {Metric::memory_total, Metric::memory_free, Metric::memory_used};
constexpr std::array kUtilizationRows = {Metric::utilization_gpu};
constexpr std::array kTemperatureRows = {Metric::temperature_core};
constexpr std::array kPowerRows = {Metric::power_draw};
constexpr std::array kEnergyRows = {Metric::energy_total};
constexpr std::array kSmClockRows = {Metric::clock_sm};
constexpr std::array kPowerLimitRows = {Metric::power_limit};

constexpr std::array kProbes = {
    ProbeRow{Probe::memory, "memory", Tier::fast, kMemoryRows},
    ProbeRow{Probe::utilization, "utilization", Tier::fast, kUtilizationRows},
    ProbeRow{Probe::temperature, "temperature", Tier::fast, kTemperatureRows},
    ProbeRow{Probe::power, "power", Tier::fast, kPowerRows},
    ProbeRow{Probe::energy, "energy", Tier::fast, kEnergyRows},
    ProbeRow{Probe::sm_clock, "sm_clock", Tier::fast, kSmClockRows},
    ProbeRow{Probe::power_limit, "power_limit", Tier::slow, kPowerLimitRows},
};
static_assert(kProbes.size() == kProbeCount);

// Both tables are indexed by their enumeration.
constexpr bool in_order() {
  for (std::size_t i = 0; i < kCatalog.size(); ++i) {
    if (static_cast<std::size_t>(kCatalog[i].metric) != i) return false;
  }
  for (std::size_t i = 0; i < kProbes.size(); ++i) {
    if (static_cast<std::size_t>(kProbes[i].probe) != i) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

const UnitInfo& unit_info(Unit unit) {
  return kUnits[static_cast<std::size_t>(unit)];
}

std::span<const Row> catalog() {
  return kCatalog;
}
const Row& row_of(Metric metric) {
  return kCatalog[static_cast<std::size_t>(metric)];
}

std::string json_key(const Row& row) {
  return std::string(row.key).append(unit_info(row.unit).json_suffix);
}

std::span<const ProbeRow> probes() {
  return kProbes;
}
const ProbeRow& row_of(Probe probe) {
  return kProbes[static_cast<std::size_t>(probe)];
}

ProbeSet probes_of(Tier tier) {
  ProbeSet set;
  for (const ProbeRow& row : kProbes) {
    if (row.tier == tier) set = set | ProbeSet{row.probe};
  }
  return set;
}

ProbeSet probes_filling(std::span<const Metric> metrics) {
  ProbeSet set;
  for (const ProbeRow& row : kProbes) {
    const bool wanted = std::any_of(metrics.begin(), metrics.end(), [&](Metric metric) {
      return std::find(row.fills.begin(), row.fills.end(), metric) != row.fills.end();
    });
    if (wanted) set = set | ProbeSet{row.probe};
  }
  return set;
}

}  // namespace gpuyard
