#include "sim/driver_commands.h"

#include <gtest/gtest.h>

#include "sim/physics.h"

namespace gpuyard::sim {
namespace {

using namespace std::chrono_literals;
using Places = std::vector<std::uint32_t>;

World fleet(std::uint32_t gpus) {
  World world = make_world(*find_model("h100"), gpus, {.kind = WorkloadKind::steady});
  for (int i = 0; i < 100; ++i) step(world, kStep);
  return world;
}

TEST(DriverChanges, ReloadStartsSessionWithResetCountersAndSettings) {
  World world = fleet(2);
  world.gpus[1].settings.power_limit_mw = 300'000;
  world.gpus[1].settings.persistence_mode = 1;
  world.gpus[1].settings.ecc_mode_pending = 0;
  world.gpus[1].memory.aggregate_uncorrected[2] = 7;
  world.gpus[1].processes = ProcessSet(std::vector{ProcessRecord{.pid = 77}});
  ASSERT_GT(world.gpus[1].counters.energy_uj, 0U);
  ASSERT_TRUE(reload_driver(world, 0ms, "550.54.15"));
  EXPECT_EQ(world.driver.session, 2U);
  EXPECT_EQ(world.driver.version, "550.54.15");
  const Gpu& gpu = world.gpus[1];
  EXPECT_EQ(gpu.counters.energy_uj, 0U);
  EXPECT_EQ(gpu.settings.power_limit_mw, 700'000U);
  EXPECT_EQ(gpu.settings.persistence_mode, 0U);
  EXPECT_EQ(gpu.settings.ecc_mode, 0U);  // the pending mode
  EXPECT_EQ(gpu.memory.aggregate_uncorrected[2], 7U);
  EXPECT_TRUE(gpu.processes.list().empty());
}

TEST(DriverChanges, DelayedReloadLoadsDriverOnce) {
  World world = fleet(1);
  ASSERT_TRUE(reload_driver(world, 20ms, ""));
  EXPECT_FALSE(world.driver.loaded);
  EXPECT_EQ(reload_driver(world, 0ms, "").error().code, Errc::conflict);
  step(world, kStep);
  load_due_driver(world);
  EXPECT_FALSE(world.driver.loaded);
  step(world, kStep);
  load_due_driver(world);
  EXPECT_TRUE(world.driver.loaded);
  EXPECT_EQ(world.driver.session, 2U);
  load_due_driver(world);
  EXPECT_EQ(world.driver.session, 2U);
}

TEST(DriverChanges, ReloadedDriverStillSeesLostGpu) {
  World world = fleet(1);
  world.gpus[0].fault.lost = 1;
  ASSERT_TRUE(reload_driver(world, 0ms, ""));
  EXPECT_EQ(world.gpus[0].fault.lost, 1U);
}

TEST(DriverChanges, InvalidVersionOrDelayIsRefusedWithoutChange) {
  World world = fleet(1);
  for (const char* version : {"x", ".5", "550-54", "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15"}) {
    EXPECT_EQ(reload_driver(world, 0ms, version).error().code, Errc::invalid) << version;
  }
  EXPECT_EQ(reload_driver(world, -1ms, "").error().code, Errc::invalid);
  EXPECT_EQ(reload_driver(world, 2h, "").error().code, Errc::invalid);
  EXPECT_TRUE(world.driver.loaded);
  EXPECT_EQ(load_driver(world, "").error().code, Errc::conflict);
  EXPECT_EQ(world.driver.session, 1U);
}

TEST(DriverChanges, UnpluggedGpuShiftsLaterIndexes) {
  World world = fleet(4);
  unplug(world, 1);
  EXPECT_EQ(world.order, (Places{0, 2, 3}));
  const auto energy = world.gpus[1].counters.energy_uj;
  step(world, kStep);
  EXPECT_EQ(world.gpus[1].counters.energy_uj, energy);  // it is switched off
  ASSERT_TRUE(plug(world, "", std::nullopt));
  EXPECT_EQ(world.order, (Places{0, 1, 2, 3}));
  EXPECT_EQ(world.gpus[1].plug_count, 2U);
  EXPECT_EQ(world.gpus[1].counters.energy_uj, 0U);
}

TEST(DriverChanges, AGpuCanComeBackUnderAnotherIndex) {
  World world = fleet(3);
  unplug(world, 0);
  EXPECT_EQ(plug(world, "", 3).error().code, Errc::invalid);
  ASSERT_TRUE(plug(world, "", 2));
  EXPECT_EQ(world.order, (Places{1, 2, 0}));
}

TEST(DriverChanges, PlugWithSeveralUnpluggedGpusNeedsUuid) {
  World world = fleet(3);
  unplug(world, 0);
  unplug(world, 2);
  EXPECT_EQ(plug(world, "", std::nullopt).error().code, Errc::not_found);
  EXPECT_EQ(plug(world, world.gpus[1].identity.uuid, {}).error().code, Errc::not_found);
  ASSERT_TRUE(plug(world, world.gpus[2].identity.uuid, std::nullopt));
  EXPECT_EQ(world.order, (Places{1, 2}));
}

TEST(DriverChanges, AWorldMayBeWithoutAnyGpu) {
  World world = fleet(1);
  unplug(world, 0);
  EXPECT_TRUE(world.order.empty());
  step(world, kStep);
  EXPECT_EQ(driver_record_of(world).gpu_count, 0U);
}

}  // namespace
}  // namespace gpuyard::sim
