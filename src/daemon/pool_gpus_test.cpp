#include "daemon/pool_gpus.h"

#include <gtest/gtest.h>

namespace gpuyard::daemon {
namespace {

void put(DeviceState& device, Metric metric, std::int64_t value) {
  device.sample.set({metric, 0, {}, value});
}

DeviceState gpu() {
  DeviceState device;
  device.info = {"G0", 0, "G0", "0000:01:00.0", "NVIDIA H100 80GB HBM3", {}};
  device.health.verdict = Health::healthy;
  put(device, Metric::memory_total, 80'000);
  put(device, Metric::memory_free, 79'000);
  put(device, Metric::temperature_core, 41);
  put(device, Metric::numa_node, 1);
  put(device, Metric::mig_mode, 0);
  put(device, Metric::memory_used, 1'000);
  put(device, Metric::ecc_uncorrected_aggregate, 0);
  device.sample.set(ProcessList{{}, std::vector<GpuProcess>{}});
  return device;
}

const Missing kBoardHasNone{MissingReason::not_supported, ""};

lease::PoolGpu pooled(DeviceState device) {
  Snapshot snapshot;
  snapshot.driver.initialised = true;
  snapshot.devices = {std::move(device)};
  return pool_gpus(snapshot).at(0);
}

TEST(PoolGpus, HealthyGpuIsAvailable) {
  const auto one = pooled(gpu());
  EXPECT_EQ(one.info.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(one.withheld, "");
  EXPECT_EQ(one.text, "");
  EXPECT_EQ(one.total_bytes, 80'000);
  EXPECT_EQ(one.free_bytes, 79'000);
  EXPECT_EQ(one.temperature_c, 41);
  EXPECT_EQ(one.numa_node, 1U);
}

TEST(PoolGpus, AReadingTheBoardLacksIsNotZero) {
  DeviceState device = gpu();
  for (const Metric metric : {Metric::mig_mode, Metric::temperature_core, Metric::memory_total,
                              Metric::memory_used, Metric::memory_free, Metric::numa_node}) {
    device.sample.set({metric, 0, {}, kBoardHasNone});
  }
  const auto one = pooled(device);
  EXPECT_EQ(one.withheld, "") << "a board without a MIG mode is not in it";
  EXPECT_EQ(one.total_bytes, std::nullopt);
  EXPECT_FALSE(one.reports_memory);
  EXPECT_EQ(one.free_bytes, std::nullopt);
  EXPECT_EQ(one.temperature_c, std::nullopt);
  EXPECT_EQ(one.numa_node, std::nullopt);
}

TEST(PoolGpus, AReadingThatFailsWithholdsTheGpu) {
  DeviceState device = gpu();
  device.sample.set({Metric::temperature_core, 0, {}, Missing{MissingReason::failed, "no"}});
  EXPECT_EQ(pooled(device).withheld, "unknown");
  EXPECT_EQ(pooled(device).text, "unknown: temperature (no)");
}

TEST(PoolGpus, UtilisationWithoutAProcessIsActivity) {
  DeviceState device = gpu();
  device.sample.set({Metric::utilization_gpu, 0, TimePoint{Duration(7)}, 97});
  const auto activity = pooled(device).activity;
  ASSERT_TRUE(activity);
  EXPECT_TRUE(activity->busy);
  EXPECT_EQ(activity->taken_at, TimePoint{Duration(7)});
  EXPECT_EQ(activity->text, "97 % utilisation");
  put(device, Metric::utilization_gpu, 2);
  EXPECT_FALSE(pooled(device).activity->busy) << "what monitors cause";
}

TEST(PoolGpus, SleepingGpuIsAvailableAndIdleNow) {
  DeviceState device = gpu();
  put(device, Metric::utilization_gpu, 0);
  device.runtime_suspend = RuntimeSuspend{.polling_paused = true, .asleep_since = TimePoint{}};
  Snapshot snapshot;
  snapshot.taken = TimePoint{std::chrono::hours(9)};
  snapshot.devices = {device};
  const auto one = pool_gpus(snapshot).at(0);
  EXPECT_EQ(one.withheld, "");
  ASSERT_TRUE(one.activity);
  EXPECT_EQ(one.activity->taken_at, snapshot.taken);
  EXPECT_FALSE(one.activity->busy);
}

TEST(PoolGpus, PowerIsActivityWhereUtilisationIsNotReported) {
  DeviceState device = gpu();
  device.sample.set({Metric::utilization_gpu, 0, {}, kBoardHasNone});
  put(device, Metric::power_limit_default, 700'000);
  put(device, Metric::power_draw, 120'000);
  EXPECT_FALSE(pooled(device).activity->busy);
  put(device, Metric::power_draw, 500'000);
  EXPECT_TRUE(pooled(device).activity->busy);
}

TEST(PoolGpus, AListedProcessAccountsForTheActivity) {
  DeviceState device = gpu();
  put(device, Metric::utilization_gpu, 30);
  device.sample.set(ProcessList{{}, std::vector<GpuProcess>{{7, ProcessKind::graphics, 300, {}}}});
  EXPECT_FALSE(pooled(device).activity) << "a desktop is drawn";
}

TEST(PoolGpus, GraphicsMemoryIsSeparateAndBounded) {
  auto device = gpu();
  EXPECT_EQ(pooled(device).graphics_bytes, 0);
  device.sample.set(ProcessList{{},
                                std::vector<GpuProcess>{{7, ProcessKind::graphics, 300, {}},
                                                        {8, ProcessKind::graphics, {}, {}},
                                                        {9, ProcessKind::compute, 5'000, {}}}});
  EXPECT_EQ(pooled(device).graphics_bytes, 300);
  device.sample.set(
      ProcessList{{}, std::vector<GpuProcess>{{7, ProcessKind::graphics, 60'000, {}}}});
  EXPECT_EQ(pooled(device).graphics_bytes, 8'000) << "no screen needs so much";
}

TEST(PoolGpus, OneWithoutANumaNodeHasNone) {
  auto device = gpu();
  put(device, Metric::numa_node, -1);
  EXPECT_EQ(pooled(device).numa_node, std::nullopt);
}

TEST(PoolGpus, LinkedGpusShareClique) {
  Snapshot snapshot;
  snapshot.devices = {gpu(), gpu(), gpu()};
  snapshot.devices[0].info.nvlinks = snapshot.devices[2].info.nvlinks = {"switch"};
  const auto all = pool_gpus(snapshot);
  EXPECT_EQ(all[0].clique, 0U);
  EXPECT_EQ(all[1].clique, std::nullopt);
  EXPECT_EQ(all[2].clique, 0U);
}

TEST(PoolGpus, ALostOneIsWithheld) {
  auto device = gpu();
  device.condition = DeviceCondition::unavailable;
  device.why = "GPU is lost";
  device.info.fault = Missing{MissingReason::device_lost, "GPU is lost"};
  EXPECT_EQ(pooled(device).withheld, "lost");
  EXPECT_EQ(pooled(device).text, "lost");
}

TEST(PoolGpus, GpuLostDuringReadIsWithheld) {
  auto device = gpu();
  device.condition = DeviceCondition::unavailable;
  device.why = "GPU is lost";
  device.sample.set(
      {Metric::temperature_core, 0, {}, Missing{MissingReason::device_lost, "GPU is lost"}});
  EXPECT_EQ(pooled(device).withheld, "lost");
}

// We may lack access to the driver's files, while processes use the GPU as before.
TEST(PoolGpus, UnopenedGpuIsNotLost) {
  auto device = gpu();
  device.condition = DeviceCondition::unavailable;
  device.why = "Insufficient Permissions";
  device.info.fault = Missing{MissingReason::no_permission, "Insufficient Permissions"};
  EXPECT_EQ(pooled(device).withheld, "unresponsive");
}

TEST(PoolGpus, UnresponsiveGpuIsWithheld) {
  auto device = gpu();
  device.condition = DeviceCondition::unresponsive;
  device.why = "the driver has not answered for 3.0 s";
  EXPECT_EQ(pooled(device).withheld, "unresponsive");
  EXPECT_NE(pooled(device).text.find("3.0 s"), std::string::npos);
}

TEST(PoolGpus, UnhealthyGpuIsWithheldWithAllReasons) {
  auto device = gpu();
  device.health = {Health::unhealthy, {"temperature 90 C is above 85 C", "1 new ECC error"}};
  EXPECT_EQ(pooled(device).withheld, "unhealthy");
  EXPECT_EQ(pooled(device).text, "unhealthy: temperature 90 C is above 85 C; 1 new ECC error");
}

TEST(PoolGpus, DegradedGpuIsAvailable) {
  auto device = gpu();
  device.health = {Health::degraded, {"temperature 80 C is above 75 C"}};
  EXPECT_EQ(pooled(device).withheld, "");
}

}  // namespace
}  // namespace gpuyard::daemon
