#include "sim/apply_setting.h"

#include <algorithm>
#include <array>

namespace gpuyard::sim {
namespace {

constexpr std::uint32_t kTuringArchitecture = 6;
constexpr std::uint64_t kComputeModeExclusiveThread = 1;  // gone from drivers long ago
constexpr std::uint64_t kComputeModeLast = 3;             // exclusive process

nvml::ReturnCode set_power_limit(Gpu& gpu, std::uint64_t milliwatts) {
  const Model& model = *gpu.model;
  if (milliwatts < model.power_limit_min_mw || milliwatts > model.power_limit_max_mw)
    return nvml::kInvalidArgument;
  gpu.settings.power_limit_mw = static_cast<std::uint32_t>(milliwatts);
  return nvml::kSuccess;
}

nvml::ReturnCode lock_sm_clocks(Gpu& gpu, std::uint64_t lowest, std::uint64_t highest) {
  const ClockTable& clocks = gpu.model->clocks;
  if (lowest > highest || lowest < clocks.min_sm || highest > clocks.max_sm) {
    return nvml::kInvalidArgument;
  }
  const auto on_a_step = [&](std::uint64_t mhz) {
    return static_cast<std::uint32_t>(mhz / clocks.sm_step * clocks.sm_step);
  };
  gpu.settings.locked_sm_min_mhz = on_a_step(lowest);
  gpu.settings.locked_sm_max_mhz = on_a_step(highest);
  return nvml::kSuccess;
}

// Locks the memory clock to the supported clocks within the range.
nvml::ReturnCode lock_memory_clocks(Gpu& gpu, std::uint64_t lowest, std::uint64_t highest) {
  std::uint32_t min = 0;
  std::uint32_t max = 0;
  for (const std::uint32_t mhz : supported_memory_clocks(*gpu.model)) {
    if (mhz < lowest || mhz > highest) continue;
    if (max == 0) max = mhz;
    min = mhz;
  }
  if (max == 0) return nvml::kInvalidArgument;
  gpu.settings.locked_memory_min_mhz = min;
  gpu.settings.locked_memory_max_mhz = max;
  return nvml::kSuccess;
}

nvml::ReturnCode set_switch(std::uint32_t& which, std::uint64_t value) {
  if (value > 1) return nvml::kInvalidArgument;
  which = static_cast<std::uint32_t>(value);
  return nvml::kSuccess;
}

nvml::ReturnCode set_compute_mode(Gpu& gpu, std::uint64_t mode) {
  if (mode == kComputeModeExclusiveThread) return nvml::kNotSupported;
  if (mode > kComputeModeLast) return nvml::kInvalidArgument;
  gpu.settings.compute_mode = static_cast<std::uint32_t>(mode);
  return nvml::kSuccess;
}

nvml::ReturnCode clear_ecc_counters(Gpu& gpu, std::uint64_t which) {
  if (which > 1) return nvml::kInvalidArgument;
  MemoryHealth& memory = gpu.memory;
  (which == 0 ? memory.volatile_corrected : memory.aggregate_corrected) = {};
  (which == 0 ? memory.volatile_uncorrected : memory.aggregate_uncorrected) = {};
  return nvml::kSuccess;
}

bool is_supported(const Model& model, WriteKind setting) {
  switch (setting) {
    case WriteKind::memory_locked_clocks:
    case WriteKind::memory_locked_clocks_reset:
      return model.architecture > kTuringArchitecture;
    case WriteKind::ecc_mode:
    case WriteKind::clear_ecc_counters:
      return model.has_ecc;
    default:
      return true;
  }
}

}  // namespace

nvml::ReturnCode apply_setting(Gpu& gpu, const SettingWrite& write) {
  if (gpu.fault.lost != 0 || !gpu.plugged) return nvml::kGpuIsLost;
  if (gpu.fault.reset_required != 0) return nvml::kResetRequired;
  if (!is_supported(*gpu.model, write.kind)) return nvml::kNotSupported;
  Settings& settings = gpu.settings;
  const auto [first, second] = write.values;
  switch (write.kind) {
    case WriteKind::power_limit:
      return set_power_limit(gpu, first);
    case WriteKind::gpu_locked_clocks:
      return lock_sm_clocks(gpu, first, second);
    case WriteKind::gpu_locked_clocks_reset:
      settings.locked_sm_min_mhz = settings.locked_sm_max_mhz = 0;
      return nvml::kSuccess;
    case WriteKind::memory_locked_clocks:
      return lock_memory_clocks(gpu, first, second);
    case WriteKind::memory_locked_clocks_reset:
      settings.locked_memory_min_mhz = settings.locked_memory_max_mhz = 0;
      return nvml::kSuccess;
    case WriteKind::persistence_mode:
      return set_switch(settings.persistence_mode, first);
    case WriteKind::compute_mode:
      return set_compute_mode(gpu, first);
    case WriteKind::ecc_mode:
      return set_switch(settings.ecc_mode_pending, first);
    case WriteKind::clear_ecc_counters:
      return clear_ecc_counters(gpu, first);
    case WriteKind::reset:
    case WriteKind::driver_unloaded:
    case WriteKind::driver_loaded:
      break;  // NVML has no setter for them
  }
  return nvml::kInvalidArgument;
}

void restart(Gpu& gpu) {
  Settings after;
  after.power_limit_mw = gpu.model->power_limit_default_mw;
  after.persistence_mode = gpu.settings.persistence_mode;
  after.compute_mode = gpu.settings.compute_mode;
  after.ecc_mode = after.ecc_mode_pending = gpu.settings.ecc_mode_pending;
  gpu.settings = after;
  MemoryHealth& memory = gpu.memory;
  memory.volatile_corrected = memory.volatile_uncorrected = {};
  memory.rows.pending = 0;
  memory.retired_pages_pending = 0;
  gpu.fault.rows_pending = 0;
  // Energy and busy time count from the moment at which the driver initialises the GPU: now.
  const std::uint64_t elapsed = gpu.counters.elapsed_us;
  gpu.counters = {};
  gpu.counters.elapsed_us = elapsed;
}

Result<void> reset_gpu(Gpu& gpu) {
  if (!gpu.processes.list().empty()) {
    return Error{Errc::conflict,
                 std::to_string(gpu.processes.list().size()) +
                     " processes are using this GPU; a reset must wait until they exit"};
  }
  restart(gpu);
  gpu.fault.lost = gpu.fault.reset_required = 0;
  gpu.fault.recovery_action = RecoveryAction::none;
  return {};
}

}  // namespace gpuyard::sim
