#include "cli/device_groups.h"

#include <array>

namespace gpuyard::cli {
namespace {

using enum Metric;

constexpr std::array kIdentity = {brand,           architecture,      compute_capability,
                                  serial,          board_part_number, vbios_version,
                                  inforom_version, numa_node};
constexpr std::array kUtilization = {utilization_gpu, utilization_memory, utilization_encoder,
                                     utilization_decoder};
constexpr std::array kMemory = {memory_used, memory_free, memory_reserved, memory_total,
                                bar1_used,   bar1_free,   bar1_total};
constexpr std::array kClocks = {clock_sm,
                                clock_sm_max,
                                clock_graphics,
                                clock_graphics_max,
                                clock_memory,
                                clock_memory_max,
                                clock_video,
                                clock_video_max,
                                performance_state,
                                throttle_reasons,
                                throttle_time_sw_thermal,
                                throttle_time_hw_thermal,
                                throttle_time_power_brake};
constexpr std::array kPower = {power_draw,      power_draw_average, power_draw_instant,
                               power_limit,     power_limit_set,    power_limit_default,
                               power_limit_min, power_limit_max,    energy_total};
constexpr std::array kTemperatures = {temperature_core,
                                      temperature_core_max,
                                      temperature_slowdown,
                                      temperature_shutdown,
                                      temperature_memory,
                                      temperature_memory_max,
                                      fan_speed};
constexpr std::array kPcie = {
    pcie_generation, pcie_generation_max, pcie_width, pcie_width_max, pcie_tx,
    pcie_rx,         pcie_replays};
constexpr std::array kNvlink = {nvlink_active, nvlink_tx, nvlink_rx};
constexpr std::array kEcc = {ecc_mode,
                             ecc_mode_pending,
                             ecc_corrected_volatile,
                             ecc_corrected_volatile_at,
                             ecc_uncorrected_volatile,
                             ecc_uncorrected_volatile_at,
                             ecc_corrected_aggregate,
                             ecc_corrected_aggregate_at,
                             ecc_uncorrected_aggregate,
                             ecc_uncorrected_aggregate_at,
                             rows_remapped_corrected,
                             rows_remapped_uncorrected,
                             row_remap_pending,
                             row_remap_failure,
                             retired_pages_single_bit,
                             retired_pages_double_bit,
                             retired_pages_pending};
constexpr std::array kModes = {persistence_mode, compute_mode, mig_mode, mig_mode_pending};
constexpr std::array kGpm = {gpm_graphics, gpm_sm,   gpm_occupancy, gpm_tensor,
                             gpm_dram,     gpm_fp64, gpm_fp32,      gpm_fp16};
constexpr std::array kProcesses = {processes_compute, processes_graphics};

constexpr std::array kGroups = {
    Group{"Identity", "", kIdentity},    Group{"Utilisation", "utilization_", kUtilization},
    Group{"Memory", "memory_", kMemory}, Group{"Clocks", "clock_", kClocks},
    Group{"Power", "power_", kPower},    Group{"Temperatures", "temperature_", kTemperatures},
    Group{"PCIe", "pcie_", kPcie},       Group{"NVLink", "nvlink_", kNvlink},
    Group{"ECC", "ecc_", kEcc},          Group{"Modes", "", kModes},
    Group{"GPM", "gpm_", kGpm},          Group{"Processes", "processes_", kProcesses},
};

}  // namespace

std::span<const Group> groups() {
  return kGroups;
}

}  // namespace gpuyard::cli
