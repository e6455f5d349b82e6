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

TEST_F(MonitorTest, CountingDoesNotWaitForAStuckGpu) {
  RecordProperty("contract", "A12");
  const Monitor monitor = open(fleet_);
  for (std::uint32_t i = 0; i < 8; ++i) fleet_.block(i);
  EXPECT_EQ(monitor.gpu_count(), 8U);
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

}  // namespace
}  // namespace gpuyard::library
