#include "gpu/telemetry/runtime_power.h"

#include <string>

#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard::telemetry {
namespace {

constexpr const char* kSlot = "0000:01:00.0";

class PciRuntimePowerTest : public ::testing::Test {
 protected:
  void put(const std::string& file, const std::string& text) {
    directory_.write(std::string(kSlot) + "/power/" + file, text + "\n");
  }

  const ScratchDirectory directory_;
  PciRuntimePower power_{directory_.path()};
};

TEST_F(PciRuntimePowerTest, DeviceWithoutFilesIsNeverSuspended) {
  EXPECT_FALSE(power_.suspend_delay(kSlot));
  EXPECT_FALSE(power_.is_suspended(kSlot));
}

TEST_F(PciRuntimePowerTest, DelayDefaultsWithoutAutosuspend) {
  put("control", "auto");
  put("runtime_status", "active");
  EXPECT_EQ(power_.suspend_delay(kSlot), PciRuntimePower::kDefaultDelay);
  put("autosuspend_delay_ms", "2500");
  EXPECT_EQ(power_.suspend_delay(kSlot), std::chrono::milliseconds(2500));
  put("autosuspend_delay_ms", "-1");
  EXPECT_FALSE(power_.suspend_delay(kSlot));
}

TEST_F(PciRuntimePowerTest, ControlOnPreventsSuspend) {
  put("control", "on");
  put("runtime_status", "active");
  EXPECT_FALSE(power_.suspend_delay(kSlot));
}

TEST_F(PciRuntimePowerTest, OnlySuspendedAndSuspendingAreAsleep) {
  put("control", "auto");
  for (const char* status : {"suspended", "suspending"}) {
    put("runtime_status", status);
    EXPECT_TRUE(power_.is_suspended(kSlot)) << status;
    EXPECT_TRUE(power_.suspend_delay(kSlot)) << status;
  }
  for (const char* status : {"active", "resuming"}) {
    put("runtime_status", status);
    EXPECT_FALSE(power_.is_suspended(kSlot)) << status;
    EXPECT_TRUE(power_.suspend_delay(kSlot)) << status;
  }
  for (const char* status : {"unsupported", "error", ""}) {
    put("runtime_status", status);
    EXPECT_FALSE(power_.is_suspended(kSlot)) << status;
  }
  for (const char* status : {"unsupported", "error"}) {
    put("runtime_status", status);
    EXPECT_FALSE(power_.suspend_delay(kSlot)) << status;
  }
}

TEST_F(PciRuntimePowerTest, InvalidAddressIsNotRead) {
  put("control", "auto");
  put("runtime_status", "suspended");
  EXPECT_FALSE(power_.is_suspended(std::string("../") + directory_.path().substr(1)));
  EXPECT_FALSE(power_.is_suspended(""));
}

}  // namespace
}  // namespace gpuyard::telemetry
