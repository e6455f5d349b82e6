#include "sim/physics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace gpuyard::sim {
namespace {

using namespace std::chrono_literals;

const Model& h100() {
  return *find_model("h100");
}

World one_gpu(const Workload& workload) {
  return make_world(h100(), 1, workload);
}

void run_for(World& world, std::chrono::milliseconds time) {
  for (auto done = 0ms; done < time; done += kStep) step(world, kStep);
}

constexpr Workload kFullLoad{.kind = WorkloadKind::steady};

TEST(Physics, FullLoadReaches95PercentOfTheCapWithinTwoSeconds) {
  for (const std::uint32_t cap_mw : {700'000U, 500'000U, 300'000U}) {
    World world = one_gpu(kFullLoad);
    world.gpus[0].settings.power_limit_mw = cap_mw;
    run_for(world, 2s);
    const GpuRecord record = record_of(world.gpus[0]);
    EXPECT_GE(record.power_mw, cap_mw * 95 / 100);
    EXPECT_LE(record.power_mw, cap_mw);
  }
}

TEST(Physics, HalvingTheCapLowersTheClockAndSetsThePowerCapReasonWithin100Milliseconds) {
  World world = one_gpu({.kind = WorkloadKind::steady, .load = 0.9});
  run_for(world, 5s);
  const GpuRecord before = record_of(world.gpus[0]);
  EXPECT_EQ(before.sm_clock_mhz, 1980U);
  EXPECT_EQ(before.clock_reasons, 0U);

  world.gpus[0].settings.power_limit_mw /= 2;
  run_for(world, 100ms);
  const GpuRecord after = record_of(world.gpus[0]);
  EXPECT_LT(after.sm_clock_mhz, before.sm_clock_mhz);
  EXPECT_EQ(after.clock_reasons, kReasonPowerCap);

  run_for(world, 3s);
  EXPECT_LE(record_of(world.gpus[0]).power_mw, 350'000U);
}

TEST(Physics, TemperatureSettlesWithinTwoDegreesOfAmbientPlusPowerTimesResistance) {
  for (const double load : {0.0, 0.5, 1.0}) {
    World world = one_gpu({.kind = WorkloadKind::steady, .load = load});
    run_for(world, 60s);
    const GpuRecord record = record_of(world.gpus[0]);
    const double expected = world.ambient + record.power_mw / 1000.0 * h100().thermal_resistance;
    EXPECT_NEAR(record.temperature_celsius, expected, 2.0);
  }
}

TEST(Physics, EnergyIsTheIntegralOfPower) {
  World world = one_gpu({.kind = WorkloadKind::training});
  double joules = 0;
  for (int i = 0; i < 12'000; ++i) {
    step(world, kStep);
    joules += record_of(world.gpus[0]).power_mw / 1000.0 * 0.01;
  }
  const double counted = static_cast<double>(record_of(world.gpus[0]).energy_mj) / 1000.0;
  EXPECT_GT(counted, 10'000.0);
  EXPECT_NEAR(counted, joules, joules * 0.001);
}

TEST(Physics, AnIdleGpuDrawsItsIdlePowerAtItsIdleClock) {
  World world = one_gpu({});
  run_for(world, 10s);
  const GpuRecord record = record_of(world.gpus[0]);
  EXPECT_EQ(record.power_mw, 70'000U);
  EXPECT_EQ(record.sm_clock_mhz, 345U);
  EXPECT_EQ(record.gpu_utilization_percent, 0U);
  EXPECT_EQ(record.memory_used_bytes, 0U);
  EXPECT_EQ(record.clock_reasons, kReasonIdle);
}

TEST(Physics, TheSameWorldLivesTheSameLifeTwice) {
  World first = make_world(h100(), 8, {.kind = WorkloadKind::mixed});
  World second = make_world(h100(), 8, {.kind = WorkloadKind::mixed});
  run_for(first, 30s);
  run_for(second, 30s);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(std::bit_cast<RecordWords>(record_of(first.gpus[i])),
              std::bit_cast<RecordWords>(record_of(second.gpus[i])));
  }
}

TEST(Physics, SensorsStayWithinWhatTheModelCanDo) {
  World world = make_world(h100(), 16, {.kind = WorkloadKind::mixed});
  for (int i = 0; i < 3000; ++i) {
    step(world, kStep);
    for (const Gpu& gpu : world.gpus) {
      const GpuRecord record = record_of(gpu);
      ASSERT_LE(record.power_mw, gpu.settings.power_limit_mw);
      ASSERT_GE(record.power_mw, h100().idle_mw);
      ASSERT_LE(record.sm_clock_mhz, h100().clocks.max_sm);
      ASSERT_LE(record.gpu_utilization_percent, 100U);
      ASSERT_LE(record.memory_used_bytes + h100().memory_reserved_bytes, h100().memory_total_bytes);
    }
  }
}

TEST(World, IdentitiesAreDistinctAndTheSameInEveryRun) {
  const World world = make_world(h100(), kMaxGpus, {});
  std::set<std::string> uuids;
  std::set<std::uint32_t> buses;
  for (const Gpu& gpu : world.gpus) {
    uuids.insert(gpu.identity.uuid);
    buses.insert(gpu.identity.pci_bus);
  }
  EXPECT_EQ(uuids.size(), kMaxGpus);
  EXPECT_EQ(buses.size(), kMaxGpus);
  // Recorded tests name GPUs by UUID: these may never change.
  EXPECT_STREQ(world.gpus[0].identity.uuid, "GPU-ce751ccb-2c51-4ca8-8a5f-e1cbf99717fc");
}

}  // namespace
}  // namespace gpuyard::sim
