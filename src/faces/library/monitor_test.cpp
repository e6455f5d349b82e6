#include "faces/library/monitor.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/device/error.h"
#include "gpu/device/fake_backend.h"

namespace gpuyard::library {
namespace {

constexpr std::int64_t kMemory = 80'000'000'000;
constexpr Duration kShortTimeout = std::chrono::milliseconds(50);

class MonitorTest : public ::testing::Test {
 protected:
  ~MonitorTest() override {
    for (std::uint32_t i = 0; i < 8; ++i) fleet_.unblock(i);
  }
  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(8, kMemory);
};

Monitor open(const FakeFleet& fleet) {
  auto monitor = Monitor::open(fleet.backend());
  EXPECT_TRUE(monitor.ok());
  return *std::move(monitor);
}

TEST_F(MonitorTest, AFleetIsSeenThroughTheOneInterface) {
  RecordProperty("contract", "A1 A4 A5 A6 A7 A8");
  fleet_.set_memory_used(2, 30'000'000'000);
  fleet_.set_temperature(2, 71);
  fleet_.set_number(2, Metric::utilization_gpu, 93);
  const Snapshot snapshot = open(fleet_).snapshot();
  const DeviceState& gpu = snapshot.devices.at(2);
  EXPECT_EQ(gpu.info.index, 2U);
  EXPECT_EQ(*gpu.sample.number(Metric::memory_total), kMemory);
  EXPECT_EQ(*gpu.sample.number(Metric::memory_used), 30'000'000'000);
  EXPECT_EQ(*gpu.sample.number(Metric::temperature_core), 71);
  EXPECT_EQ(*gpu.sample.number(Metric::utilization_gpu), 93);
}

TEST_F(MonitorTest, CountingDoesNotWaitForAStuckGpu) {
  RecordProperty("contract", "A12");
  const Monitor monitor = open(fleet_);
  for (std::uint32_t i = 0; i < 8; ++i) fleet_.block(i);
  EXPECT_EQ(monitor.gpu_count(), 8U);
}

TEST_F(MonitorTest, LostGpuIsHiddenButCountedAndListed) {
  RecordProperty("contract", "A12 A13");
  const Monitor monitor = open(fleet_);
  fleet_.remove_gpu(5);
  EXPECT_EQ(monitor.gpu_count(), 8U);
  EXPECT_EQ(monitor.snapshot().devices.size(), 7U);
  const Snapshot all = monitor.inventory();
  ASSERT_EQ(all.devices.size(), 8U);
  EXPECT_EQ(all.devices[5].condition, DeviceCondition::unavailable);
  EXPECT_EQ(all.devices[5].why, "GPU is lost");
}

TEST_F(MonitorTest, StuckGpuDoesNotFailSnapshot) {
  RecordProperty("contract", "A13");
  const Monitor monitor = open(fleet_);
  fleet_.block(0);
  const Snapshot snapshot = monitor.snapshot(kShortTimeout);
  ASSERT_EQ(snapshot.devices.size(), 8U);
  EXPECT_EQ(snapshot.devices[0].condition, DeviceCondition::unresponsive);
  EXPECT_EQ(snapshot.devices[0].sample.number(Metric::temperature_core), nullptr);
  EXPECT_EQ(*snapshot.devices[7].sample.number(Metric::temperature_core), 40);
}

TEST_F(MonitorTest, UnopenableGpuDoesNotBlockOpen) {
  RecordProperty("contract", "A13");
  fleet_.block(4);
  const auto monitor = Monitor::open(fleet_.backend(), kShortTimeout);
  ASSERT_TRUE(monitor.ok());
  EXPECT_EQ(monitor->gpu_count(), 8U);
  EXPECT_EQ(monitor->snapshot().devices.size(), 7U);
  EXPECT_EQ(monitor->inventory().devices[4].info.fault->reason, MissingReason::timed_out);
}

TEST_F(MonitorTest, OneReadingDoesNotWaitForAStuckNeighbour) {
  const Monitor monitor = open(fleet_);
  fleet_.block(0);
  EXPECT_EQ(*monitor.read(1, Metric::temperature_core, std::chrono::hours(1)), 40);
}

TEST_F(MonitorTest, StuckGpuAllowsRepeatedSnapshots) {
  const Monitor monitor = open(fleet_);
  fleet_.block(0);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(monitor.snapshot(std::chrono::milliseconds(5)).devices.size(), 8U);
  }
}

TEST_F(MonitorTest, ManyThreadsShareOneMonitorWhileTheFleetChanges) {
  RecordProperty("contract", "A11");
  const Monitor monitor = open(fleet_);
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          const auto metrics = monitor.collect_metrics();
          if (metrics.size() < 7 || metrics.size() > 8) ++wrong;
          if (monitor.gpu_count() != 8) ++wrong;
        }
      });
    }
    for (int i = 0; i < 200; ++i)
      fleet_.set_temperature(static_cast<std::uint32_t>(i % 8), 30 + i % 50);
    fleet_.remove_gpu(1);
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(MonitorTest, TheSmallViewHoldsEveryGpu) {
  RecordProperty("contract", "C2 C3");
  fleet_.set_number(0, Metric::power_draw, 312'500);
  fleet_.set_number(0, Metric::power_limit, 700'000);
  const auto metrics = open(fleet_).collect_metrics();
  ASSERT_EQ(metrics.size(), 8U);
  EXPECT_EQ(metrics[0].device_id, 0U);
  EXPECT_EQ(metrics[0].power_watts, 312.5);
  EXPECT_EQ(metrics[0].power_limit_watts, 700.0);
  EXPECT_FALSE(metrics[1].power_watts) << "what the GPU does not report is empty, not 0";
}

TEST_F(MonitorTest, AnIndexThatIsNotThereIsOutOfRange) {
  RecordProperty("contract", "A14");
  EXPECT_EQ(open(fleet_).read(8, Metric::power_draw).error().message,
            "GPU index 8 is out of range");
}

TEST_F(MonitorTest, AbsentReadingIsUnsupported) {
  RecordProperty("contract", "A14");
  const auto power = open(fleet_).read(0, Metric::power_draw);
  EXPECT_EQ(power.error(),
            (Error{Errc::unsupported, "feature not supported on this platform: power_draw"}));
}

TEST_F(MonitorTest, FailedReadingHasDriverMessage) {
  RecordProperty("contract", "A14");
  fleet_.set_missing(0, Metric::power_draw, {MissingReason::failed, "Unknown Error"});
  EXPECT_EQ(open(fleet_).read(0, Metric::power_draw).error().message,
            "NVML query failed: Unknown Error");
}

TEST_F(MonitorTest, AReadingThatWorksIsItsNumber) {
  EXPECT_EQ(*open(fleet_).read(3, Metric::temperature_core), 40);
}

TEST(Monitor, MissingDriverIsReported) {
  RecordProperty("contract", "A14");
  const auto fleet = FakeFleet::without_driver(init_error("Driver Not Loaded"));
  EXPECT_EQ(Monitor::open(fleet.backend()).error().message,
            "failed to initialise NVML: Driver Not Loaded");
}

TEST(Monitor, AnEmptyFleetIsFine) {
  const Monitor monitor = open(FakeFleet::with_healthy_gpus(0, 0));
  EXPECT_EQ(monitor.gpu_count(), 0U);
  EXPECT_TRUE(monitor.snapshot().devices.empty());
}

}  // namespace
}  // namespace gpuyard::library
