// Which probe fills which rows of the catalog, and how often it runs unasked: data only.
#include "device/catalog.h"

#include <array>

namespace gpuyard {
namespace {

constexpr std::array kMemoryRows = {Metric::memory_total, Metric::memory_free, Metric::memory_used,
                                    Metric::memory_reserved};
constexpr std::array kUtilizationRows = {Metric::utilization_gpu, Metric::utilization_memory};
constexpr std::array kTemperatureRows = {Metric::temperature_core};
constexpr std::array kPowerRows = {Metric::power_draw};
constexpr std::array kEnergyRows = {Metric::energy_total};
constexpr std::array kClocksRows = {Metric::clock_graphics, Metric::clock_sm, Metric::clock_memory,
                                    Metric::clock_video};
constexpr std::array kThrottleReasonsRows = {Metric::throttle_reasons};
constexpr std::array kPerformanceStateRows = {Metric::performance_state};
constexpr std::array kPowerFieldsRows = {Metric::power_draw_average, Metric::power_draw_instant};
constexpr std::array kMemoryTemperatureRows = {Metric::temperature_memory};
constexpr std::array kPowerLimitRows = {Metric::power_limit, Metric::power_limit_set};
constexpr std::array kEncoderRows = {Metric::utilization_encoder};
constexpr std::array kDecoderRows = {Metric::utilization_decoder};
constexpr std::array kBar1Rows = {Metric::bar1_total, Metric::bar1_free, Metric::bar1_used};
constexpr std::array kFansRows = {Metric::fan_speed};
constexpr std::array kPcieLinkRows = {Metric::pcie_generation, Metric::pcie_width};
constexpr std::array kPcieTxRows = {Metric::pcie_tx};
constexpr std::array kPcieRxRows = {Metric::pcie_rx};
constexpr std::array kPcieReplaysRows = {Metric::pcie_replays};
constexpr std::array kEccTotalsRows = {
    Metric::ecc_corrected_volatile, Metric::ecc_uncorrected_volatile,
    Metric::ecc_corrected_aggregate, Metric::ecc_uncorrected_aggregate};
constexpr std::array kRowRemapsRows = {Metric::rows_remapped_corrected,
                                       Metric::rows_remapped_uncorrected, Metric::row_remap_pending,
                                       Metric::row_remap_failure};
constexpr std::array kThrottleTimesRows = {Metric::throttle_time_sw_thermal,
                                           Metric::throttle_time_hw_thermal,
                                           Metric::throttle_time_power_brake};
constexpr std::array kModesRows = {Metric::persistence_mode, Metric::compute_mode,
                                   Metric::ecc_mode,         Metric::ecc_mode_pending,
                                   Metric::mig_mode,         Metric::mig_mode_pending};
constexpr std::array kNvlinkStateRows = {Metric::nvlink_active};
constexpr std::array kNvlinkTrafficRows = {Metric::nvlink_tx, Metric::nvlink_rx};
constexpr std::array kGpmRows = {Metric::gpm_graphics, Metric::gpm_sm,   Metric::gpm_occupancy,
                                 Metric::gpm_tensor,   Metric::gpm_dram, Metric::gpm_fp64,
                                 Metric::gpm_fp32,     Metric::gpm_fp16};
constexpr std::array kProcessesRows = {Metric::processes_compute, Metric::processes_graphics};
constexpr std::array kEccPlacesRows = {
    Metric::ecc_corrected_volatile_at, Metric::ecc_uncorrected_volatile_at,
    Metric::ecc_corrected_aggregate_at, Metric::ecc_uncorrected_aggregate_at};
constexpr std::array kRetiredPagesRows = {Metric::retired_pages_single_bit,
                                          Metric::retired_pages_double_bit,
                                          Metric::retired_pages_pending};
constexpr std::array kTemperatureLimitsRows = {
    Metric::temperature_slowdown, Metric::temperature_shutdown, Metric::temperature_core_max,
    Metric::temperature_memory_max};
constexpr std::array kPowerBoundsRows = {Metric::power_limit_default, Metric::power_limit_min,
                                         Metric::power_limit_max};
constexpr std::array kClockLimitsRows = {Metric::clock_graphics_max, Metric::clock_sm_max,
                                         Metric::clock_memory_max, Metric::clock_video_max};
constexpr std::array kPcieLimitsRows = {Metric::pcie_generation_max, Metric::pcie_width_max};
constexpr std::array kInventoryRows = {
    Metric::serial,          Metric::board_part_number,  Metric::brand,
    Metric::architecture,    Metric::compute_capability, Metric::vbios_version,
    Metric::inforom_version, Metric::numa_node};

constexpr std::array kProbes = {
    ProbeRow{Probe::memory, "memory", Tier::fast, kMemoryRows},
    ProbeRow{Probe::utilization, "utilization", Tier::fast, kUtilizationRows},
    ProbeRow{Probe::temperature, "temperature", Tier::fast, kTemperatureRows},
    ProbeRow{Probe::power, "power", Tier::fast, kPowerRows},
    ProbeRow{Probe::energy, "energy", Tier::fast, kEnergyRows},
    ProbeRow{Probe::clocks, "clocks", Tier::fast, kClocksRows},
    ProbeRow{Probe::throttle_reasons, "throttle_reasons", Tier::fast, kThrottleReasonsRows},
    ProbeRow{Probe::performance_state, "performance_state", Tier::fast, kPerformanceStateRows},
    ProbeRow{Probe::power_fields, "power_fields", Tier::slow, kPowerFieldsRows},
    ProbeRow{Probe::memory_temperature, "memory_temperature", Tier::slow, kMemoryTemperatureRows},
    ProbeRow{Probe::power_limit, "power_limit", Tier::slow, kPowerLimitRows},
    ProbeRow{Probe::encoder, "encoder", Tier::slow, kEncoderRows},
    ProbeRow{Probe::decoder, "decoder", Tier::slow, kDecoderRows},
    ProbeRow{Probe::bar1, "bar1", Tier::slow, kBar1Rows},
    ProbeRow{Probe::fans, "fans", Tier::slow, kFansRows},
    ProbeRow{Probe::pcie_link, "pcie_link", Tier::slow, kPcieLinkRows},
    ProbeRow{Probe::pcie_tx, "pcie_tx", Tier::slow, kPcieTxRows},
    ProbeRow{Probe::pcie_rx, "pcie_rx", Tier::slow, kPcieRxRows},
    ProbeRow{Probe::pcie_replays, "pcie_replays", Tier::slow, kPcieReplaysRows},
    ProbeRow{Probe::ecc_totals, "ecc_totals", Tier::slow, kEccTotalsRows},
    ProbeRow{Probe::row_remaps, "row_remaps", Tier::slow, kRowRemapsRows},
    ProbeRow{Probe::throttle_times, "throttle_times", Tier::slow, kThrottleTimesRows},
    ProbeRow{Probe::modes, "modes", Tier::slow, kModesRows},
    ProbeRow{Probe::nvlink_state, "nvlink_state", Tier::slow, kNvlinkStateRows},
    ProbeRow{Probe::nvlink_traffic, "nvlink_traffic", Tier::slow, kNvlinkTrafficRows},
    ProbeRow{Probe::gpm, "gpm", Tier::slow, kGpmRows},
    ProbeRow{Probe::processes, "processes", Tier::slow, kProcessesRows},
    ProbeRow{Probe::ecc_places, "ecc_places", Tier::rare, kEccPlacesRows},
    ProbeRow{Probe::retired_pages, "retired_pages", Tier::rare, kRetiredPagesRows},
    ProbeRow{Probe::temperature_limits, "temperature_limits", Tier::rare, kTemperatureLimitsRows},
    ProbeRow{Probe::power_bounds, "power_bounds", Tier::rare, kPowerBoundsRows},
    ProbeRow{Probe::clock_limits, "clock_limits", Tier::rare, kClockLimitsRows},
    ProbeRow{Probe::pcie_limits, "pcie_limits", Tier::rare, kPcieLimitsRows},
    ProbeRow{Probe::inventory, "inventory", Tier::rare, kInventoryRows},
};
static_assert(kProbes.size() == kProbeCount);

// The table is indexed by its enumeration.
constexpr bool probes_are_in_order() {
  for (std::size_t i = 0; i < kProbes.size(); ++i) {
    if (static_cast<std::size_t>(kProbes[i].probe) != i) return false;
  }
  return true;
}
static_assert(probes_are_in_order());

}  // namespace

std::span<const ProbeRow> probes() {
  return kProbes;
}

}  // namespace gpuyard
