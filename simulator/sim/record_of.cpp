// From a GPU's physical state to what its sensors show.
#include <algorithm>
#include <cmath>

#include "sim/pcie.h"
#include "sim/world.h"

namespace gpuyard::sim {
namespace {

constexpr std::uint64_t kUjPerMj = 1000;
constexpr double kMaxFanRpm = 3200.0;

std::uint32_t rounded(double value) {
  return static_cast<std::uint32_t>(std::lround(std::max(0.0, value)));
}

std::uint32_t percent(double share) {
  return rounded(std::clamp(share, 0.0, 1.0) * 100.0);
}

void put_counters(const Gpu& gpu, GpuRecord& record) {
  const Counters& counters = gpu.counters;
  record.elapsed_us = counters.elapsed_us;
  record.energy_mj = counters.energy_uj / kUjPerMj;
  record.activity_us = counters.activity_us;
  record.encoder_us = counters.encoder_us;
  record.decoder_us = counters.decoder_us;
  record.pcie_tx_bytes = counters.pcie_tx_bytes;
  record.pcie_rx_bytes = counters.pcie_rx_bytes;
  const std::uint32_t links = gpu.model->nvlink.links;
  std::fill_n(record.nvlink_tx_bytes.begin(), links, counters.nvlink_tx_bytes);
  std::fill_n(record.nvlink_rx_bytes.begin(), links, counters.nvlink_rx_bytes);
  record.nvlinks_up = (1U << links) - 1U;
  record.power_cap_ns = counters.power_cap_ns;
  record.application_clocks_ns = counters.application_clocks_ns;
  record.software_thermal_ns = counters.software_thermal_ns;
  record.hardware_thermal_ns = counters.hardware_thermal_ns;
}

void put_memory(const Gpu& gpu, GpuRecord& record) {
  const MemoryHealth& memory = gpu.memory;
  record.ecc_volatile_corrected = memory.volatile_corrected;
  record.ecc_volatile_uncorrected = memory.volatile_uncorrected;
  record.ecc_aggregate_corrected = memory.aggregate_corrected;
  record.ecc_aggregate_uncorrected = memory.aggregate_uncorrected;
  record.rows = memory.rows;
  record.rows.pending |= gpu.fault.rows_pending;
  record.rows.failed |= gpu.fault.rows_failed;
  record.retired_pages_single_bit = memory.retired_pages_single_bit;
  record.retired_pages_double_bit = memory.retired_pages_double_bit;
  record.retired_pages_pending = memory.retired_pages_pending;
}

void put_sensors(const Gpu& gpu, GpuRecord& record) {
  const Model& model = *gpu.model;
  record.power_mw = rounded(gpu.power_mw);
  record.power_average_mw = rounded(gpu.power_average_mw);
  record.sm_clock_mhz = gpu.sm_clock_mhz;
  record.memory_clock_mhz = gpu.memory_clock_mhz;
  record.video_clock_mhz = static_cast<std::uint32_t>(std::uint64_t{gpu.sm_clock_mhz} *
                                                      model.clocks.max_video / model.clocks.max_sm);
  record.temperature_celsius = rounded(gpu.temperature);
  if (model.has_memory_temperature) {
    record.memory_temperature_celsius = rounded(gpu.memory_temperature);
  }
  for (std::uint32_t fan = 0; fan < model.fans; ++fan) {
    record.fan_percent[fan] = rounded(gpu.fan_percent);
    record.fan_rpm[fan] = rounded(gpu.fan_percent / 100.0 * kMaxFanRpm);
  }
  record.gpu_utilization_percent = percent(gpu.demand.load);
  record.memory_utilization_percent = percent(gpu.activities.of(Activity::dram));
  record.encoder_utilization_percent = percent(gpu.activities.encoder);
  record.decoder_utilization_percent = percent(gpu.activities.decoder);
  const bool rests = gpu.idle_for >= kRestsAfter;
  record.performance_state = rests ? model.idle_performance_state : model.busy_performance_state;
  record.pcie_generation = pcie_generation(gpu);
  record.pcie_width = pcie_width(gpu);
  record.pcie_tx_bytes_per_s = bytes_per_s(gpu, gpu.activities.pcie_tx);
  record.pcie_rx_bytes_per_s = bytes_per_s(gpu, gpu.activities.pcie_rx);
}

void put_settings(const Gpu& gpu, GpuRecord& record) {
  const Settings& settings = gpu.settings;
  record.power_limit_mw = settings.power_limit_mw;
  record.locked_sm_min_mhz = settings.locked_sm_min_mhz;
  record.locked_sm_max_mhz = settings.locked_sm_max_mhz;
  record.locked_memory_min_mhz = settings.locked_memory_min_mhz;
  record.locked_memory_max_mhz = settings.locked_memory_max_mhz;
  record.persistence_mode = settings.persistence_mode;
  record.compute_mode = settings.compute_mode;
  record.ecc_mode = settings.ecc_mode;
  record.ecc_mode_pending = settings.ecc_mode_pending;
}

}  // namespace

GpuRecord record_of(const Gpu& gpu) {
  GpuRecord record;
  record.memory_used_bytes = gpu.demand.vram_bytes;
  record.clock_reasons = gpu.clock_reasons;
  put_counters(gpu, record);
  put_memory(gpu, record);
  put_sensors(gpu, record);
  put_settings(gpu, record);
  record.workload_kind = static_cast<std::uint32_t>(gpu.workload.kind);
  record.process_count = static_cast<std::uint32_t>(gpu.processes.list().size());
  record.process_share_permille = rounded(gpu.process_share * 1000.0);
  record.plugs = gpu.plugs;
  record.plugged = gpu.plugged ? 1 : 0;
  record.fault = gpu.fault;
  return record;
}

DriverRecord driver_record_of(const World& world) {
  DriverRecord record;
  record.session = world.driver.session;
  record.elapsed_ms = static_cast<std::uint64_t>(world.age().count());
  record.loaded = world.driver.loaded ? 1 : 0;
  record.process_entry_bytes = world.process_entry_bytes;
  world.driver.version.copy(record.version, sizeof record.version - 1);
  record.time_mode = world.time.mode;
  record.speed_permille = rounded(world.time.speed * 1000.0);
  record.timeline_entries = world.timeline_entries;
  record.timeline_done = world.timeline_done;
  record.timeline_refused = world.timeline_refused;
  record.setters = world.setters;
  record.gpu_count = static_cast<std::uint32_t>(world.order.size());
  for (std::size_t i = 0; i < world.order.size(); ++i) {
    record.order[i] = static_cast<std::uint8_t>(world.order[i]);
  }
  record.calls = world.fault.calls;
  return record;
}

}  // namespace gpuyard::sim
