#include "cli/read/device_groups.h"

#include <array>

namespace gpuyard::cli {
namespace {

// A struct, so that the names of the metrics stay among themselves.
struct Lists {
  using enum Metric;

  static constexpr std::array kIdentity = {brand,           architecture,      compute_capability,
                                           serial,          board_part_number, vbios_version,
                                           inforom_version, numa_node};
  static constexpr std::array kUtilization = {utilization_gpu, utilization_memory,
                                              utilization_encoder, utilization_decoder};
  static constexpr std::array kMemory = {memory_used, memory_free, memory_reserved, memory_total,
                                         bar1_used,   bar1_free,   bar1_total};
  static constexpr std::array kClocks = {clock_sm,
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
  static constexpr std::array kPower = {power_draw,      power_draw_average, power_draw_instant,
                                        power_limit,     power_limit_set,    power_limit_default,
                                        power_limit_min, power_limit_max,    energy_total};
  static constexpr std::array kTemperatures = {temperature_core,
                                               temperature_core_max,
                                               temperature_slowdown,
                                               temperature_shutdown,
                                               temperature_memory,
                                               temperature_memory_max,
                                               fan_speed};
  static constexpr std::array kPcie = {
      pcie_generation, pcie_generation_max, pcie_width, pcie_width_max, pcie_tx,
      pcie_rx,         pcie_replays};
  static constexpr std::array kNvlink = {nvlink_active, nvlink_tx, nvlink_rx};
  static constexpr std::array kEcc = {ecc_mode,
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
  static constexpr std::array kModes = {persistence_mode, compute_mode, mig_mode, mig_mode_pending};
  static constexpr std::array kGpm = {gpm_graphics, gpm_sm,   gpm_occupancy, gpm_tensor,
                                      gpm_dram,     gpm_fp64, gpm_fp32,      gpm_fp16};
  static constexpr std::array kProcesses = {processes_compute, processes_graphics};
};

constexpr std::array kGroups = {
    Group{"Identity", "", Lists::kIdentity},
    Group{"Utilisation", "utilization_", Lists::kUtilization},
    Group{"Memory", "memory_", Lists::kMemory},
    Group{"Clocks", "clock_", Lists::kClocks},
    Group{"Power", "power_", Lists::kPower},
    Group{"Temperatures", "temperature_", Lists::kTemperatures},
    Group{"PCIe", "pcie_", Lists::kPcie},
    Group{"NVLink", "nvlink_", Lists::kNvlink},
    Group{"ECC", "ecc_", Lists::kEcc},
    Group{"Modes", "", Lists::kModes},
    Group{"GPM", "gpm_", Lists::kGpm},
    Group{"Processes", "processes_", Lists::kProcesses},
};

}  // namespace

std::span<const Group> groups() {
  return kGroups;
}

}  // namespace gpuyard::cli
