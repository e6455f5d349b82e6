#include "sim/apply_setting.h"

#include <gtest/gtest.h>

#include "sim/memory_errors.h"

namespace gpuyard::sim {
namespace {

Gpu gpu_of(const char* model) {
  return make_world(*find_model(model), 1, {}).gpus[0];
}

nvml::ReturnCode set(Gpu& gpu, WriteKind setting, std::uint64_t first = 0,
                     std::uint64_t second = 0) {
  return apply_setting(gpu, {.kind = setting, .gpu = 0, .values = {first, second}});
}

TEST(ApplySetting, PowerLimitOutsideConstraintsIsRefused) {
  Gpu gpu = gpu_of("h100");
  EXPECT_EQ(set(gpu, WriteKind::power_limit, 200'000), nvml::kSuccess);
  EXPECT_EQ(set(gpu, WriteKind::power_limit, 199'999), nvml::kInvalidArgument);
  EXPECT_EQ(set(gpu, WriteKind::power_limit, 700'001), nvml::kInvalidArgument);
  EXPECT_EQ(set(gpu, WriteKind::power_limit, UINT64_MAX), nvml::kInvalidArgument);
  EXPECT_EQ(gpu.settings.power_limit_mw, 200'000U);
}

TEST(ApplySetting, GpuClocksLockToSupportedStepAndUnlock) {
  Gpu gpu = gpu_of("h100");
  EXPECT_EQ(set(gpu, WriteKind::gpu_locked_clocks, 1000, 1209), nvml::kSuccess);
  EXPECT_EQ(gpu.settings.locked_sm_min_mhz, 990U);
  EXPECT_EQ(gpu.settings.locked_sm_max_mhz, 1200U);
  EXPECT_EQ(set(gpu, WriteKind::gpu_locked_clocks, 1200, 1000), nvml::kInvalidArgument);
  EXPECT_EQ(set(gpu, WriteKind::gpu_locked_clocks, 0, 1000), nvml::kInvalidArgument);
  EXPECT_EQ(set(gpu, WriteKind::gpu_locked_clocks, 1000, 1995), nvml::kInvalidArgument);
  EXPECT_EQ(gpu.settings.locked_sm_max_mhz, 1200U);
  EXPECT_EQ(set(gpu, WriteKind::gpu_locked_clocks_reset), nvml::kSuccess);
  EXPECT_EQ(gpu.settings.locked_sm_max_mhz, 0U);
}

TEST(ApplySetting, MemoryClocksLockToSupportedClocksInRange) {
  Gpu gpu = gpu_of("rtx4090");
  EXPECT_EQ(set(gpu, WriteKind::memory_locked_clocks, 800, 10400), nvml::kSuccess);
  EXPECT_EQ(gpu.settings.locked_memory_min_mhz, 810U);
  EXPECT_EQ(gpu.settings.locked_memory_max_mhz, 10251U);
  EXPECT_EQ(set(gpu, WriteKind::memory_locked_clocks, 900, 5000), nvml::kInvalidArgument);
  EXPECT_EQ(set(gpu, WriteKind::memory_locked_clocks, 5001, 810), nvml::kInvalidArgument);
  EXPECT_EQ(set(gpu, WriteKind::memory_locked_clocks_reset), nvml::kSuccess);
  EXPECT_EQ(gpu.settings.locked_memory_max_mhz, 0U);
  Gpu turing = gpu_of("t4");
  EXPECT_EQ(set(turing, WriteKind::memory_locked_clocks, 405, 405), nvml::kNotSupported);
}

TEST(ApplySetting, InvalidModeValueIsRefused) {
  Gpu gpu = gpu_of("a100");
  EXPECT_EQ(set(gpu, WriteKind::persistence_mode, 1), nvml::kSuccess);
  EXPECT_EQ(set(gpu, WriteKind::persistence_mode, 2), nvml::kInvalidArgument);
  EXPECT_EQ(gpu.settings.persistence_mode, 1U);
  EXPECT_EQ(set(gpu, WriteKind::compute_mode, 3), nvml::kSuccess);
  EXPECT_EQ(set(gpu, WriteKind::compute_mode, 1), nvml::kNotSupported);
  EXPECT_EQ(set(gpu, WriteKind::compute_mode, 4), nvml::kInvalidArgument);
  EXPECT_EQ(gpu.settings.compute_mode, 3U);
  EXPECT_EQ(set(gpu, static_cast<WriteKind>(99)), nvml::kInvalidArgument);
}

TEST(ApplySetting, TheEccModeIsPendingUntilAReset) {
  Gpu gpu = gpu_of("a100");
  EXPECT_EQ(set(gpu, WriteKind::ecc_mode, 0), nvml::kSuccess);
  EXPECT_EQ(gpu.settings.ecc_mode, 1U);
  EXPECT_EQ(gpu.settings.ecc_mode_pending, 0U);
  ASSERT_TRUE(reset_gpu(gpu));
  EXPECT_EQ(gpu.settings.ecc_mode, 0U);
  EXPECT_EQ(set(gpu, WriteKind::ecc_mode, 2), nvml::kInvalidArgument);
}

TEST(ApplySetting, EccWritesOnGeForceAreUnsupported) {
  Gpu gpu = gpu_of("rtx4090");
  EXPECT_EQ(set(gpu, WriteKind::ecc_mode, 1), nvml::kNotSupported);
  EXPECT_EQ(set(gpu, WriteKind::clear_ecc_counters, 0), nvml::kNotSupported);
}

TEST(ApplySetting, ClearingCountsLeavesTheOtherKindAlone) {
  Gpu gpu = gpu_of("h100");
  ASSERT_TRUE(add_memory_errors(gpu, {.location = EccLocation::sram, .count = 5}));
  const auto sram = static_cast<std::size_t>(EccLocation::sram);
  EXPECT_EQ(set(gpu, WriteKind::clear_ecc_counters, 0), nvml::kSuccess);
  EXPECT_EQ(gpu.memory.volatile_corrected[sram], 0U);
  EXPECT_EQ(gpu.memory.aggregate_corrected[sram], 5U);
  EXPECT_EQ(set(gpu, WriteKind::clear_ecc_counters, 1), nvml::kSuccess);
  EXPECT_EQ(gpu.memory.aggregate_corrected[sram], 0U);
  EXPECT_EQ(set(gpu, WriteKind::clear_ecc_counters, 2), nvml::kInvalidArgument);
}

TEST(ApplySetting, LostGpuRefusesWrites) {
  Gpu gpu = gpu_of("h100");
  gpu.fault.lost = 1;
  EXPECT_EQ(set(gpu, WriteKind::power_limit, 300'000), nvml::kGpuIsLost);
  EXPECT_EQ(gpu.settings.power_limit_mw, 700'000U);
}

TEST(ResetGpu, LostGpuReturnsWithDefaultsAndClearedCounters) {
  Gpu gpu = gpu_of("h100");
  gpu.fault.lost = 1;
  gpu.fault.recovery_action = RecoveryAction::drain_and_reset;
  gpu.settings.power_limit_mw = 300'000;
  gpu.settings.locked_sm_max_mhz = 900;
  gpu.counters.energy_uj = 5'000'000;
  gpu.counters.elapsed_us = 7;
  ASSERT_TRUE(add_memory_errors(gpu, {.uncorrected = true}));
  ASSERT_TRUE(reset_gpu(gpu));
  EXPECT_EQ(gpu.fault, Fault{});
  EXPECT_EQ(gpu.settings.power_limit_mw, 700'000U);
  EXPECT_EQ(gpu.settings.locked_sm_max_mhz, 0U);
  EXPECT_EQ(gpu.counters.energy_uj, 0U);
  EXPECT_EQ(gpu.counters.elapsed_us, 7U);
  EXPECT_EQ(gpu.memory.volatile_uncorrected, EccCounts{});
  EXPECT_EQ(gpu.memory.rows.pending, 0U);
  EXPECT_EQ(gpu.memory.rows.uncorrected_rows, 1U);
}

TEST(ResetGpu, WaitsForProcesses) {
  Gpu gpu = gpu_of("h100");
  gpu.processes = ProcessSet(std::vector{ProcessRecord{.pid = 1}});
  EXPECT_EQ(reset_gpu(gpu).error().code, Errc::conflict);
}

TEST(MemoryErrors, UncorrectedErrorsRemapRowsUntilSparesRunOut) {
  Gpu gpu = gpu_of("h200");
  ASSERT_TRUE(add_memory_errors(gpu, {.uncorrected = true, .count = 2}));
  EXPECT_EQ(gpu.memory.rows.uncorrected_rows, 2U);
  EXPECT_EQ(gpu.memory.rows.banks_high, 2U);
  EXPECT_EQ(gpu.memory.rows.banks_max, 638U);
  EXPECT_EQ(gpu.memory.rows.pending, 1U);
  EXPECT_EQ(gpu.memory.rows.failed, 0U);
  ASSERT_TRUE(add_memory_errors(gpu, {.uncorrected = true, .count = 1000}));
  EXPECT_EQ(gpu.memory.rows.uncorrected_rows, 512U);
  EXPECT_EQ(gpu.memory.rows.failed, 1U);
}

TEST(MemoryErrors, ATuringRetiresPages) {
  Gpu gpu = gpu_of("t4");
  ASSERT_TRUE(add_memory_errors(gpu, {.uncorrected = true, .count = 3}));
  EXPECT_EQ(gpu.memory.retired_pages_double_bit, 3U);
  EXPECT_EQ(gpu.memory.retired_pages_pending, 1U);
  EXPECT_EQ(gpu.memory.rows.uncorrected_rows, 0U);
}

TEST(MemoryErrors, MissingEccOrInvalidLocationIsRefused) {
  Gpu geforce = gpu_of("rtx4090");
  EXPECT_EQ(add_memory_errors(geforce, {}).error().code, Errc::unsupported);
  Gpu gpu = gpu_of("h100");
  EXPECT_EQ(add_memory_errors(gpu, {.count = 0}).error().code, Errc::invalid);
  EXPECT_EQ(add_memory_errors(gpu, {.location = static_cast<EccLocation>(8)}).error().code,
            Errc::invalid);
  gpu.settings.ecc_mode = 0;
  EXPECT_EQ(add_memory_errors(gpu, {}).error().code, Errc::conflict);
  EXPECT_EQ(ecc_location_from_name("sram"), EccLocation::sram);
  EXPECT_EQ(ecc_location_from_name("disk"), std::nullopt);
}

}  // namespace
}  // namespace gpuyard::sim
