// The names of everything measurable, and of the driver calls that measure it. What each one means
// is in catalog.h; this header is what the rest of the house needs to mention one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace gpuyard {

enum class Metric : std::uint16_t {
  name,
  uuid,
  pci_address,
  serial,
  board_part_number,
  brand,
  architecture,
  compute_capability,
  vbios_version,
  inforom_version,
  numa_node,
  memory_total,
  memory_free,
  memory_used,
  memory_reserved,
  bar1_total,
  bar1_free,
  bar1_used,
  utilization_gpu,
  utilization_memory,
  utilization_encoder,
  utilization_decoder,
  temperature_core,
  temperature_memory,
  temperature_slowdown,
  temperature_shutdown,
  temperature_core_max,
  temperature_memory_max,
  power_draw,
  power_draw_average,
  power_draw_instant,
  power_limit,
  power_limit_set,
  power_limit_default,
  power_limit_min,
  power_limit_max,
  energy_total,
  clock_graphics,
  clock_sm,
  clock_memory,
  clock_video,
  clock_graphics_max,
  clock_sm_max,
  clock_memory_max,
  clock_video_max,
  throttle_reasons,
  throttle_time_sw_thermal,
  throttle_time_hw_thermal,
  throttle_time_power_brake,
  performance_state,
  fan_speed,
  pcie_generation,
  pcie_generation_max,
  pcie_width,
  pcie_width_max,
  pcie_tx,
  pcie_rx,
  pcie_replays,
  ecc_mode,
  ecc_mode_pending,
  ecc_corrected_volatile,
  ecc_uncorrected_volatile,
  ecc_corrected_aggregate,
  ecc_uncorrected_aggregate,
  ecc_corrected_volatile_at,
  ecc_uncorrected_volatile_at,
  ecc_corrected_aggregate_at,
  ecc_uncorrected_aggregate_at,
  rows_remapped_corrected,
  rows_remapped_uncorrected,
  row_remap_pending,
  row_remap_failure,
  retired_pages_single_bit,
  retired_pages_double_bit,
  retired_pages_pending,
  persistence_mode,
  compute_mode,
  mig_mode,
  mig_mode_pending,
  nvlink_active,
  nvlink_tx,
  nvlink_rx,
  gpm_graphics,
  gpm_sm,
  gpm_occupancy,
  gpm_tensor,
  gpm_dram,
  gpm_fp64,
  gpm_fp32,
  gpm_fp16,
  processes_compute,
  processes_graphics,
  driver_version,
  nvml_version,
  cuda_driver_version,
};
inline constexpr std::size_t kMetricCount = 95;

// One question to the driver, of one or a few calls, and the rows it fills.
enum class Probe : std::uint8_t {
  memory,
  utilization,
  temperature,
  power,
  energy,
  clocks,
  throttle_reasons,
  performance_state,
  power_fields,
  memory_temperature,
  power_limit,
  encoder,
  decoder,
  bar1,
  fans,
  pcie_link,
  pcie_tx,
  pcie_rx,
  pcie_replays,
  ecc_totals,
  row_remaps,
  throttle_times,
  modes,
  nvlink_state,
  nvlink_traffic,
  gpm,
  processes,
  ecc_places,
  retired_pages,
  temperature_limits,
  power_bounds,
  clock_limits,
  pcie_limits,
  inventory,
};
inline constexpr std::size_t kProbeCount = 34;

class ProbeSet {
 public:
  constexpr ProbeSet() = default;
  constexpr ProbeSet(std::initializer_list<Probe> probes) {
    for (const Probe probe : probes) bits_ |= bit(probe);
  }
  static constexpr ProbeSet all() { return from_bits(kAllBits); }
  static constexpr ProbeSet from_bits(std::uint64_t bits) {
    ProbeSet set;
    set.bits_ = bits & kAllBits;
    return set;
  }

  constexpr bool contains(Probe probe) const { return (bits_ & bit(probe)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr std::uint64_t bits() const { return bits_; }

  friend constexpr ProbeSet operator|(ProbeSet a, ProbeSet b) {
    return from_bits(a.bits_ | b.bits_);
  }
  friend constexpr ProbeSet operator-(ProbeSet a, ProbeSet b) {
    return from_bits(a.bits_ & ~b.bits_);
  }
  friend constexpr bool operator==(ProbeSet, ProbeSet) = default;

  // Calls visit(probe) for each member, in the order of the enumeration.
  template <class Visit>
  constexpr void each(Visit&& visit) const {
    for (std::size_t i = 0; i < kProbeCount; ++i) {
      if (contains(static_cast<Probe>(i))) visit(static_cast<Probe>(i));
    }
  }

 private:
  static_assert(kProbeCount < 64);
  static constexpr std::uint64_t kAllBits = (std::uint64_t{1} << kProbeCount) - 1U;
  static constexpr std::uint64_t bit(Probe probe) {
    return std::uint64_t{1} << static_cast<unsigned>(probe);
  }

  std::uint64_t bits_ = 0;
};

}  // namespace gpuyard
