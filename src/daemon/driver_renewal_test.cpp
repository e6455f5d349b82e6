#include "daemon/driver_renewal.h"

#include <gtest/gtest.h>

namespace gpuyard::daemon {
namespace {

using std::chrono::seconds;

Snapshot two_gpus(DeviceCondition first, DeviceCondition second, int second_of_test) {
  Snapshot snapshot;
  snapshot.taken = TimePoint{} + seconds(1000 + second_of_test);
  snapshot.driver.initialised = true;
  for (const DeviceCondition condition : {first, second}) {
    DeviceState& device = snapshot.devices.emplace_back();
    device.condition = condition;
    device.why = "Unknown Error";
  }
  return snapshot;
}

Snapshot unreadable(int second) {
  return two_gpus(DeviceCondition::unavailable, DeviceCondition::unavailable, second);
}

TEST(DriverRenewal, OneReadableGpuKeepsTheDriverHost) {
  DriverRenewal renewal;
  const auto half = two_gpus(DeviceCondition::unavailable, DeviceCondition::responsive, 0);
  EXPECT_FALSE(renewal.evaluate(half));
}

TEST(DriverRenewal, UnreadableGpusRestartHostWithBackOff) {
  DriverRenewal renewal;
  EXPECT_EQ(renewal.evaluate(unreadable(0)), "no GPU can be read (Unknown Error)");
  EXPECT_FALSE(renewal.evaluate(unreadable(29)));
  EXPECT_TRUE(renewal.evaluate(unreadable(30)));
  EXPECT_FALSE(renewal.evaluate(unreadable(89)));
  EXPECT_TRUE(renewal.evaluate(unreadable(90)));
}

TEST(DriverRenewal, AReadingStartsTheBackOffOver) {
  DriverRenewal renewal;
  renewal.evaluate(unreadable(0));
  renewal.evaluate(unreadable(30));
  renewal.evaluate(two_gpus(DeviceCondition::responsive, DeviceCondition::responsive, 40));
  EXPECT_TRUE(renewal.evaluate(unreadable(80)));
}

TEST(DriverRenewal, MissingBoardAllowsRenewal) {
  DriverRenewal renewal;
  Snapshot snapshot = unreadable(0);
  DeviceState& missing = snapshot.devices.front();
  missing.info.fault = Missing{MissingReason::device_lost, ""};
  missing.info.former_index = 0;
  EXPECT_TRUE(renewal.evaluate(snapshot));
}

TEST(DriverRenewal, ALostGpuIsNoReason) {
  DriverRenewal renewal;
  Snapshot lost = unreadable(0);
  for (DeviceState& device : lost.devices) {
    device.info.fault = Missing{MissingReason::device_lost, ""};
  }
  EXPECT_FALSE(renewal.evaluate(lost));
}

}  // namespace
}  // namespace gpuyard::daemon
