#include "sim/physics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "sim/apply_setting.h"

namespace gpuyard::sim {
namespace {

using namespace std::chrono_literals;

const Model& h100() {
  return *find_model("h100");
}

void run_for(World& world, std::chrono::milliseconds time) {
  for (auto done = 0ms; done < time; done += kStep) step(world, kStep);
}

constexpr Workload kFullLoad{.kind = WorkloadKind::steady};

std::string key_of(const ::testing::TestParamInfo<const Model*>& info) {
  return std::string(info.param->key);
}

std::vector<const Model*> every_model() {
  std::vector<const Model*> models;
  for (const Model& model : all_models()) models.push_back(&model);
  return models;
}

// The laws that hold for every model.
class ModelPhysics : public ::testing::TestWithParam<const Model*> {
 protected:
  const Model& model() const { return *GetParam(); }
  World one_gpu(const Workload& workload) const { return make_world(model(), 1, workload); }
};

INSTANTIATE_TEST_SUITE_P(Models, ModelPhysics, ::testing::ValuesIn(every_model()), key_of);

TEST_P(ModelPhysics, FullLoadReachesPowerLimitWithinTwoSeconds) {
  for (const std::uint32_t cap_mw :
       {model().power_limit_default_mw,
        (model().power_limit_default_mw + model().power_limit_min_mw) / 2,
        model().power_limit_min_mw}) {
    World world = one_gpu(kFullLoad);
    world.gpus[0].settings.power_limit_mw = cap_mw;
    run_for(world, 2s);
    const GpuRecord record = record_of(world.gpus[0]);
    EXPECT_GE(record.power_mw, cap_mw * 95 / 100);
    EXPECT_LE(record.power_mw, cap_mw);
  }
}

TEST_P(ModelPhysics, HalvedPowerLimitLowersClockWithThrottleReason) {
  World world = one_gpu({.kind = WorkloadKind::steady, .load = 0.85});
  run_for(world, 5s);
  const GpuRecord before = record_of(world.gpus[0]);
  EXPECT_EQ(before.sm_clock_mhz, model().clocks.max_sm);
  EXPECT_EQ(before.clock_reasons, 0U);

  world.gpus[0].settings.power_limit_mw /= 2;
  run_for(world, 100ms);
  const GpuRecord after = record_of(world.gpus[0]);
  EXPECT_LT(after.sm_clock_mhz, before.sm_clock_mhz);
  EXPECT_EQ(after.clock_reasons, kReasonPowerCap);
  EXPECT_GE(after.power_cap_ns, 90'000'000U);

  run_for(world, 3s);
  EXPECT_LE(record_of(world.gpus[0]).power_mw, world.gpus[0].settings.power_limit_mw);
}

TEST_P(ModelPhysics, TemperatureSettlesAtAmbientPlusPowerTimesResistance) {
  for (const double load : {0.0, 0.5, 1.0}) {
    World world = one_gpu({.kind = WorkloadKind::steady, .load = load});
    run_for(world, 120s);
    const GpuRecord record = record_of(world.gpus[0]);
    const double expected = world.ambient + record.power_mw / 1000.0 * model().thermal_resistance;
    EXPECT_NEAR(record.temperature_celsius, expected, 2.0);
  }
}

TEST_P(ModelPhysics, EnergyIsTheIntegralOfPower) {
  World world = one_gpu({.kind = WorkloadKind::training});
  double joules = 0;
  for (int i = 0; i < 12'000; ++i) {
    step(world, kStep);
    joules += record_of(world.gpus[0]).power_mw / 1000.0 * 0.01;
  }
  const double counted = static_cast<double>(record_of(world.gpus[0]).energy_mj) / 1000.0;
  EXPECT_GT(counted, 1'000.0);
  EXPECT_NEAR(counted, joules, joules * 0.001);
}

TEST_P(ModelPhysics, IdleGpuHasIdlePowerAndClocks) {
  World world = one_gpu({});
  run_for(world, 10s);
  const GpuRecord record = record_of(world.gpus[0]);
  EXPECT_EQ(record.power_mw, model().idle_mw);
  EXPECT_EQ(record.sm_clock_mhz, model().clocks.idle_sm);
  EXPECT_EQ(record.memory_clock_mhz, model().clocks.idle_memory);
  EXPECT_EQ(record.performance_state, model().idle_performance_state);
  EXPECT_EQ(record.pcie_generation, model().pcie.idle_generation);
  EXPECT_EQ(record.gpu_utilization_percent, 0U);
  EXPECT_EQ(record.memory_used_bytes, 0U);
  EXPECT_EQ(record.clock_reasons, kReasonIdle);
}

TEST_P(ModelPhysics, MixedLoadKeepsSensorsWithinModelLimits) {
  World world = make_world(model(), 8, {.kind = WorkloadKind::mixed});
  for (int i = 0; i < 3000; ++i) {
    step(world, kStep);
    for (const Gpu& gpu : world.gpus) {
      const GpuRecord record = record_of(gpu);
      ASSERT_LE(record.power_mw, gpu.settings.power_limit_mw);
      ASSERT_GE(record.power_mw, model().idle_mw);
      ASSERT_LE(record.sm_clock_mhz, model().clocks.max_sm);
      ASSERT_LE(record.video_clock_mhz, model().clocks.max_video);
      ASSERT_LE(record.gpu_utilization_percent, 100U);
      ASSERT_LE(record.memory_utilization_percent, 100U);
      ASSERT_LE(record.memory_used_bytes + model().memory_reserved_bytes,
                model().memory_total_bytes);
      ASSERT_LT(record.temperature_celsius, model().temperatures.gpu_max);
      ASSERT_EQ(record.memory_temperature_celsius != 0, model().has_memory_temperature);
    }
  }
}

TEST_P(ModelPhysics, LockedClocksBoundSmClockBusyAndIdle) {
  World world = one_gpu({.kind = WorkloadKind::steady, .load = 0.3});
  const std::uint32_t most = model().clocks.max_sm - 20 * model().clocks.sm_step;
  const std::uint32_t least = most - 10 * model().clocks.sm_step;
  ASSERT_EQ(
      apply_setting(world.gpus[0],
                    {.kind = WriteKind::gpu_locked_clocks, .gpu = 0, .values = {least, most}}),
      nvml::kSuccess);
  run_for(world, 1s);
  EXPECT_EQ(record_of(world.gpus[0]).sm_clock_mhz, most);
  EXPECT_EQ(record_of(world.gpus[0]).clock_reasons, kReasonApplicationClocks);
  world.gpus[0].workload = {};
  run_for(world, 1s);
  EXPECT_EQ(record_of(world.gpus[0]).sm_clock_mhz, least);
  ASSERT_EQ(apply_setting(world.gpus[0], {.kind = WriteKind::gpu_locked_clocks_reset}),
            nvml::kSuccess);
  run_for(world, 1s);
  EXPECT_EQ(record_of(world.gpus[0]).sm_clock_mhz, model().clocks.idle_sm);
}

TEST(Physics, EqualWorldsEvolveEqually) {
  World first = make_world(h100(), 8, {.kind = WorkloadKind::mixed});
  World second = make_world(h100(), 8, {.kind = WorkloadKind::mixed});
  run_for(first, 30s);
  run_for(second, 30s);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(std::bit_cast<RecordWords>(record_of(first.gpus[i])),
              std::bit_cast<RecordWords>(record_of(second.gpus[i])));
  }
}

TEST(Physics, LockedMemoryClockHoldsAndLimitsSmClock) {
  World world = make_world(*find_model("l40s"), 1, {.kind = WorkloadKind::steady, .load = 0.5});
  ASSERT_EQ(
      apply_setting(world.gpus[0],
                    {.kind = WriteKind::memory_locked_clocks, .gpu = 0, .values = {405, 405}}),
      nvml::kSuccess);
  run_for(world, 1s);
  EXPECT_EQ(record_of(world.gpus[0]).memory_clock_mhz, 405U);
  EXPECT_EQ(record_of(world.gpus[0]).sm_clock_mhz, 420U);
}

TEST(Physics, TwoIdleSecondsLowerLinkAndMemoryClock) {
  World world = make_world(*find_model("rtx4090"), 1, kFullLoad);
  run_for(world, 1s);
  GpuRecord record = record_of(world.gpus[0]);
  EXPECT_EQ(record.performance_state, 2U);
  EXPECT_EQ(record.pcie_generation, 4U);
  EXPECT_EQ(record.memory_clock_mhz, 10501U);
  EXPECT_GT(record.pcie_rx_bytes_per_s, 100'000'000U);
  world.gpus[0].workload = {};
  run_for(world, 1s);
  EXPECT_EQ(record_of(world.gpus[0]).pcie_generation, 4U);
  run_for(world, 1s);
  record = record_of(world.gpus[0]);
  EXPECT_EQ(record.performance_state, 8U);
  EXPECT_EQ(record.pcie_generation, 1U);
  EXPECT_EQ(record.pcie_width, 16U);
  EXPECT_EQ(record.memory_clock_mhz, 405U);
  EXPECT_EQ(record.pcie_rx_bytes_per_s, 0U);
}

TEST(Physics, FansStopOnCoolGpuAndFollowTemperature) {
  World world = make_world(*find_model("rtx4090"), 1, {});
  run_for(world, 30s);
  EXPECT_EQ(record_of(world.gpus[0]).fan_percent[0], 0U);
  world.gpus[0].workload = kFullLoad;
  run_for(world, 120s);
  const GpuRecord record = record_of(world.gpus[0]);
  EXPECT_GT(record.fan_percent[0], 50U);
  EXPECT_EQ(record.fan_percent[0], record.fan_percent[1]);
  EXPECT_GT(record.fan_rpm[0], 1'500U);
  EXPECT_EQ(record_of(make_world(h100(), 1, kFullLoad).gpus[0]).fan_rpm[0], 0U);
}

TEST(Physics, HotGpuSlowsDownWithThrottleReason) {
  World world = make_world(h100(), 1, {.kind = WorkloadKind::steady, .load = 0.9});
  run_for(world, 60s);
  EXPECT_EQ(record_of(world.gpus[0]).clock_reasons, 0U);
  world.gpus[0].extra_heat = 25;
  run_for(world, 120s);
  const GpuRecord record = record_of(world.gpus[0]);
  EXPECT_TRUE(record.clock_reasons & kReasonSoftwareThermal);
  EXPECT_LT(record.sm_clock_mhz, h100().clocks.max_sm);
  EXPECT_LT(record.temperature_celsius, h100().temperatures.slowdown);
  EXPECT_GT(record.software_thermal_ns, 1'000'000'000U);
  world.gpus[0].extra_heat = 100;
  run_for(world, 120s);
  EXPECT_TRUE(record_of(world.gpus[0]).clock_reasons & kReasonHardwareThermal);
}

TEST(Physics, ActivityAndLinkCountersFollowWorkload) {
  World world = make_world(h100(), 1, kFullLoad);
  run_for(world, 10s);
  const GpuRecord record = record_of(world.gpus[0]);
  const auto us = [&](Activity part) { return record.activity_us[static_cast<std::size_t>(part)]; };
  EXPECT_EQ(record.elapsed_us, 10'000'000U);
  EXPECT_EQ(us(Activity::graphics), 10'000'000U);
  EXPECT_EQ(us(Activity::dram), 6'000'000U);
  EXPECT_EQ(us(Activity::fp64), 3'000'000U);
  EXPECT_NEAR(static_cast<double>(record.pcie_tx_bytes),
              static_cast<double>(record.pcie_tx_bytes_per_s) * 10.0, 1e6);
  EXPECT_EQ(record.nvlink_tx_bytes[0], record.nvlink_tx_bytes[17]);
  EXPECT_NEAR(static_cast<double>(record.nvlink_tx_bytes[0]), 0.05 * 26.562e9 * 10, 1e6);
  EXPECT_EQ(record.nvlinks_up, 0x3FFFFU);
  world.gpus[0].fault.nvlinks_down = 2;
  EXPECT_EQ(record_of(world.gpus[0]).nvlinks_up, 0x3FFFCU);
  EXPECT_EQ(record_of(make_world(*find_model("t4"), 1, {}).gpus[0]).nvlinks_up, 0U);
}

TEST(Physics, ProcessDemandsAddToWorkloadUpToCapacity) {
  World world = make_world(h100(), 1, {.kind = WorkloadKind::steady, .load = 0.5});
  Gpu& gpu = world.gpus[0];
  const std::uint64_t gib = 1ULL << 30;
  gpu.processes = ProcessSet({{.pid = 1, .memory_bytes = gib, .load_permille = 200},
                              {.pid = 2, .memory_bytes = 2 * gib, .load_permille = 100}});
  step(world, kStep);
  GpuRecord record = record_of(gpu);
  EXPECT_EQ(record.gpu_utilization_percent, 80U);
  EXPECT_EQ(record.process_share_permille, 1000U);
  EXPECT_EQ(record.process_count, 2U);
  EXPECT_EQ(record.memory_used_bytes, usable_memory(h100()) / 2 + 3 * gib);

  gpu.processes = ProcessSet({{.pid = 1, .memory_bytes = 60 * gib, .load_permille = 1000},
                              {.pid = 2, .load_permille = 500}});
  step(world, kStep);
  record = record_of(gpu);
  EXPECT_EQ(record.gpu_utilization_percent, 100U);
  EXPECT_EQ(record.process_share_permille, 500U);
  // The workload makes room.
  EXPECT_EQ(record.memory_used_bytes, usable_memory(h100()));
}

TEST(World, IdentitiesAreDistinctAndReproducible) {
  const World world = make_world(h100(), kMaxGpus, {});
  std::set<std::string> uuids;
  std::set<std::uint32_t> buses;
  for (const Gpu& gpu : world.gpus) {
    uuids.insert(gpu.identity.uuid);
    buses.insert(gpu.identity.pci_bus);
  }
  EXPECT_EQ(uuids.size(), kMaxGpus);
  EXPECT_EQ(buses.size(), kMaxGpus);
  // Recorded tests name GPUs by UUID: these UUIDs must never change.
  EXPECT_STREQ(world.gpus[0].identity.uuid, "GPU-ce751ccb-2c51-4ca8-8a5f-e1cbf99717fc");
}

TEST(World, MixedModelsKeepGivenOrder) {
  const World world = make_world({find_model("a100"), find_model("rtx4090")}, {});
  EXPECT_EQ(world.gpus[0].model->key, "a100");
  EXPECT_STREQ(world.gpus[1].identity.model, "rtx4090");
  EXPECT_STRNE(world.gpus[0].identity.serial, "");
  EXPECT_STREQ(world.gpus[1].identity.serial, "");
  EXPECT_EQ(record_of(world.gpus[0]).ecc_mode, 1U);
  EXPECT_EQ(record_of(world.gpus[1]).ecc_mode, 0U);
}

}  // namespace
}  // namespace gpuyard::sim
