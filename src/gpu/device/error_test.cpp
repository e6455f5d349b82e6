#include "gpu/device/error.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

// Tools match on these four texts.
TEST(DeviceError, MessagesMatchContractText) {
  RecordProperty("contract", "A14");
  EXPECT_EQ(init_error("Driver Not Loaded").message,
            "failed to initialise NVML: Driver Not Loaded");
  EXPECT_EQ(query_error("Unknown Error").message, "NVML query failed: Unknown Error");
  EXPECT_EQ(index_range_error(7).message, "GPU index 7 is out of range");
  EXPECT_EQ(unsupported_feature_error("power limits").message,
            "feature not supported on this platform: power limits");
}

TEST(DeviceError, EachErrorHasDistinctCode) {
  EXPECT_EQ(init_error("x").code, Errc::unavailable);
  EXPECT_EQ(query_error("x").code, Errc::internal);
  EXPECT_EQ(index_range_error(0).code, Errc::not_found);
  EXPECT_EQ(unsupported_feature_error("x").code, Errc::unsupported);
}

TEST(DeviceError, AMissingPermissionKeepsItsCode) {
  EXPECT_EQ(init_error("Insufficient Permissions", Errc::denied).code, Errc::denied);
  EXPECT_EQ(query_error("GPU is lost", Errc::device_lost).code, Errc::device_lost);
}

TEST(DeviceError, InitFailureReasonIsDriverText) {
  EXPECT_EQ(init_failure_reason(init_error("Driver Not Loaded")), "Driver Not Loaded");
  EXPECT_EQ(init_failure_reason(init_error("")), "");
}

TEST(DeviceError, AnyOtherErrorIsItsOwnReason) {
  const Error error = query_error("Unknown Error");
  EXPECT_EQ(init_failure_reason(error), "NVML query failed: Unknown Error");
}

}  // namespace

namespace {

TEST(DriverAdvice, MissingLibraryGetsSteps) {
  RecordProperty("contract", "C18 E13");
  for (const char* reason :
       {"NVML Shared Library Not Found",
        "/nowhere/lib.so: cannot open shared object file: No such file or directory"}) {
    const auto advice = driver_advice(reason, "--nvml PATH");
    for (const char* way : {"libnvidia-ml.so.1 is part of the NVIDIA driver", "ldconfig -p",
                            "NVIDIA Container Toolkit", "set its path with --nvml PATH"}) {
      EXPECT_NE(advice.find(way), std::string::npos) << reason << ": " << way;
    }
  }
}

TEST(DriverAdvice, DriverErrorSelectsRemedy) {
  RecordProperty("contract", "E13");
  EXPECT_NE(driver_advice("Driver Not Loaded", "").find("modprobe"), std::string::npos);
  EXPECT_NE(driver_advice("Insufficient Permissions", "").find("/dev/nvidiactl"),
            std::string::npos);
  EXPECT_NE(driver_advice("Driver/library version mismatch", "").find("reboot"), std::string::npos);
}

TEST(DriverAdvice, UnknownReasonHasNoAdvice) {
  EXPECT_EQ(driver_advice("Unknown Error", "x"), "");
  EXPECT_EQ(driver_advice("", "x"), "");
}

}  // namespace
}  // namespace gpuyard
