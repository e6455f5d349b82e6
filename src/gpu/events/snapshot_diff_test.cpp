#include "gpu/events/snapshot_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuyard::events {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ChangeDetectorTest : public testing::Test {
 protected:
  ChangeDetectorTest() {
    now_.driver = {true, "", {}};
    now_.driver.info.driver_version = "535.1";
    for (std::uint32_t index = 0; index < 2; ++index) now_.devices.push_back(gpu(index));
  }

  static DeviceState gpu(std::uint32_t index) {
    DeviceState state;
    state.info.id = state.info.uuid = "GPU-" + std::to_string(index);
    state.info.index = index;
    state.info.name = "H100";
    state.health.verdict = Health::healthy;
    return state;
  }
  void lose_driver(const std::string& why) { now_.driver = {false, why, {}}; }
  void find_driver() {
    now_.driver = {true, "", {}};
    now_.driver.info.driver_version = "535.1";
  }

  // Returns the new events, each as "kind: text".
  std::vector<std::string> take_changes() {
    ++now_.generation;
    now_.taken += std::chrono::seconds(1);
    now_.wall += std::chrono::seconds(1);
    std::vector<std::string> lines;
    for (const Event& change : detector_.update(now_)) {
      EXPECT_EQ(change.at, now_.taken);
      EXPECT_EQ(change.wall, now_.wall);
      last_ = change;
      lines.push_back(change.kind + ": " + change.text);
    }
    return lines;
  }

  Snapshot now_;
  ChangeDetector detector_;
  Event last_;
};

TEST_F(ChangeDetectorTest, FirstSnapshotGivesNoEvent) {
  now_.devices[0].condition = DeviceCondition::unavailable;
  now_.devices[1].health.verdict = Health::unhealthy;
  EXPECT_THAT(take_changes(), IsEmpty());
  EXPECT_THAT(take_changes(), IsEmpty());
}

TEST_F(ChangeDetectorTest, NvlinkLossAndReturnAreReported) {
  const auto link = [&](std::uint16_t number, bool up) {
    now_.devices[1].sample.set({Metric::nvlink_active, number, {}, std::int64_t{up ? 1 : 0}});
  };
  for (std::uint16_t number = 0; number < 4; ++number) link(number, number != 3);
  take_changes();
  link(1, false);
  EXPECT_THAT(take_changes(),
              ElementsAre("nvlink_down: GPU 1 has lost NVLink 1: 2 of 4 NVLinks are up"));
  EXPECT_EQ(last_.device, "GPU-1");
  EXPECT_EQ(last_.severity, EventSeverity::warn);
  EXPECT_THAT(take_changes(), IsEmpty());
  now_.devices[1].condition = DeviceCondition::unresponsive;
  take_changes();
  now_.devices[1].condition = DeviceCondition::responsive;
  link(0, false);
  link(2, false);
  EXPECT_THAT(take_changes(),
              testing::Contains("nvlink_down: GPU 1 has lost NVLink 0, 2: 0 of 4 NVLinks are up"));
  for (std::uint16_t number = 0; number < 3; ++number) link(number, true);
  EXPECT_THAT(take_changes(),
              ElementsAre("nvlink_up: GPU 1 has NVLink 0-2 up: 3 of 4 NVLinks are up"));
  EXPECT_EQ(last_.severity, EventSeverity::note);
}

TEST_F(ChangeDetectorTest, FirstSeenNvlinkGivesNoEvent) {
  take_changes();
  now_.devices[1].sample.set({Metric::nvlink_active, 0, {}, std::int64_t{0}});
  EXPECT_THAT(take_changes(), IsEmpty());
}

TEST_F(ChangeDetectorTest, UnresponsiveGpuAndRecoveryAreEachReported) {
  take_changes();
  now_.devices[1].condition = DeviceCondition::unresponsive;
  now_.devices[1].why = "a driver call takes too long";
  EXPECT_THAT(
      take_changes(),
      ElementsAre("gpu_unresponsive: GPU 1 does not respond: a driver call takes too long"));
  EXPECT_EQ(last_.device, "GPU-1");
  EXPECT_EQ(last_.index, 1U);
  EXPECT_EQ(last_.severity, EventSeverity::warn);
  EXPECT_THAT(take_changes(), IsEmpty());
  now_.devices[1].condition = DeviceCondition::responsive;
  now_.devices[1].why = "";
  EXPECT_THAT(take_changes(), ElementsAre("gpu_responsive: GPU 1 responds again"));
}

TEST_F(ChangeDetectorTest, GpuLossIsReported) {
  take_changes();
  now_.devices[0].condition = DeviceCondition::unavailable;
  now_.devices[0].why = "GPU is lost";
  EXPECT_THAT(take_changes(), ElementsAre("gpu_unavailable: GPU 0 is not available: GPU is lost"));
  EXPECT_EQ(last_.severity, EventSeverity::stop);
}

TEST_F(ChangeDetectorTest, AppearingAndDisappearingGpusAreReported) {
  take_changes();
  now_.devices.erase(now_.devices.begin());
  now_.devices.push_back(gpu(5));
  EXPECT_THAT(take_changes(),
              ElementsAre("gpu_disappeared: GPU 0 is no longer listed by the driver",
                          "gpu_appeared: GPU 5 was detected: H100"));
}

TEST_F(ChangeDetectorTest, SwappedIndicesGiveNoEvent) {
  take_changes();
  std::swap(now_.devices[0].info.index, now_.devices[1].info.index);
  EXPECT_THAT(take_changes(), IsEmpty());
}

TEST_F(ChangeDetectorTest, DriverLossAndReturnAreOneEventEach) {
  take_changes();
  lose_driver("the driver-host exited");
  for (DeviceState& device : now_.devices) device.condition = DeviceCondition::unresponsive;
  EXPECT_THAT(take_changes(),
              ElementsAre("driver_down: the driver is down: the driver-host exited"));
  EXPECT_EQ(last_.device, "");
  now_.devices.clear();
  EXPECT_THAT(take_changes(), IsEmpty());
  find_driver();
  now_.devices = {gpu(0), gpu(1)};
  EXPECT_THAT(take_changes(), ElementsAre("driver_up: the driver 535.1 is up, with 2 GPUs"));
}

TEST_F(ChangeDetectorTest, DriverReturnReportsMissingGpu) {
  take_changes();
  lose_driver("Driver Not Loaded");
  take_changes();
  find_driver();
  now_.devices.pop_back();
  EXPECT_THAT(take_changes(),
              ElementsAre("driver_up: the driver 535.1 is up, with 1 GPU",
                          "gpu_disappeared: GPU 1 is no longer listed by the driver"));
}

TEST_F(ChangeDetectorTest, DriverStartIsReportedWithoutGpuEvents) {
  lose_driver("Driver Not Loaded");
  take_changes();
  find_driver();
  EXPECT_THAT(take_changes(), ElementsAre("driver_up: the driver 535.1 is up, with 2 GPUs"));
}

TEST_F(ChangeDetectorTest, NewVerdictIsReportedWithReasons) {
  take_changes();
  now_.devices[0].health = {Health::degraded, {"hot", "old"}};
  EXPECT_THAT(take_changes(),
              ElementsAre("health_changed: GPU 0 is degraded, was healthy: hot; old"));
  EXPECT_EQ(last_.severity, EventSeverity::warn);
  now_.devices[0].health = {Health::unhealthy, {"hotter"}};
  EXPECT_THAT(take_changes(),
              ElementsAre("health_changed: GPU 0 is unhealthy, was degraded: hotter"));
  EXPECT_EQ(last_.severity, EventSeverity::stop);
  now_.devices[0].health = {Health::healthy, {}};
  EXPECT_THAT(take_changes(), ElementsAre("health_changed: GPU 0 is healthy, was unhealthy"));
  EXPECT_EQ(last_.severity, EventSeverity::note);
}

TEST_F(ChangeDetectorTest, TemporarilyUnknownVerdictGivesNoEvent) {
  take_changes();
  now_.devices[0].health.verdict = std::nullopt;
  EXPECT_THAT(take_changes(), IsEmpty());
  now_.devices[0].health.verdict = Health::healthy;
  EXPECT_THAT(take_changes(), IsEmpty());
}

TEST_F(ChangeDetectorTest, FirstVerdictIsReportedOnlyIfBad) {
  now_.devices[0].health.verdict = std::nullopt;
  now_.devices[1].health.verdict = std::nullopt;
  take_changes();
  now_.devices[0].health.verdict = Health::healthy;
  now_.devices[1].health.verdict = Health::unhealthy;
  EXPECT_THAT(take_changes(), ElementsAre("health_changed: GPU 1 is unhealthy"));
}

}  // namespace
}  // namespace gpuyard::events
