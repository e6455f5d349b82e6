#include "gpu/device/error.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

// Tools match on these four texts.
TEST(DeviceError, MessagesMatchContractText) {
  RecordProperty("contract", "A14");
  EXPECT_EQ(init_failed("Driver Not Loaded").message,
            "failed to initialise NVML: Driver Not Loaded");
  EXPECT_EQ(query_failed("Unknown Error").message, "NVML query failed: Unknown Error");
  EXPECT_EQ(index_out_of_range(7).message, "GPU index 7 is out of range");
  EXPECT_EQ(feature_not_supported("power limits").message,
            "feature not supported on this platform: power limits");
}

TEST(DeviceError, EachErrorHasDistinctCode) {
  EXPECT_EQ(init_failed("x").code, Errc::unavailable);
  EXPECT_EQ(query_failed("x").code, Errc::internal);
  EXPECT_EQ(index_out_of_range(0).code, Errc::not_found);
  EXPECT_EQ(feature_not_supported("x").code, Errc::unsupported);
}

TEST(DeviceError, AMissingPermissionKeepsItsCode) {
  EXPECT_EQ(init_failed("Insufficient Permissions", Errc::denied).code, Errc::denied);
  EXPECT_EQ(query_failed("GPU is lost", Errc::device_lost).code, Errc::device_lost);
}

TEST(DeviceError, InitFailureReasonIsDriverText) {
  EXPECT_EQ(init_failure_reason(init_failed("Driver Not Loaded")), "Driver Not Loaded");
  EXPECT_EQ(init_failure_reason(init_failed("")), "");
}

TEST(DeviceError, AnyOtherErrorIsItsOwnReason) {
  const Error error = query_failed("Unknown Error");
  EXPECT_EQ(init_failure_reason(error), "NVML query failed: Unknown Error");
}

}  // namespace

namespace {

TEST(Advice, SaysHowToFindTheLibraryThatIsMissing) {
  RecordProperty("contract", "C18 E13");
  for (const char* reason :
       {"NVML Shared Library Not Found",
        "/nowhere/lib.so: cannot open shared object file: No such file or directory"}) {
    const auto advice = advice_on_driver(reason, "--nvml PATH");
    for (const char* way : {"libnvidia-ml.so.1 is part of the NVIDIA driver", "ldconfig -p",
                            "NVIDIA Container Toolkit", "set its path with --nvml PATH"}) {
      EXPECT_NE(advice.find(way), std::string::npos) << reason << ": " << way;
    }
  }
}

TEST(Advice, DriverErrorSelectsRemedy) {
  RecordProperty("contract", "E13");
  EXPECT_NE(advice_on_driver("Driver Not Loaded", "").find("modprobe"), std::string::npos);
  EXPECT_NE(advice_on_driver("Insufficient Permissions", "").find("/dev/nvidiactl"),
            std::string::npos);
  EXPECT_NE(advice_on_driver("Driver/library version mismatch", "").find("reboot"),
            std::string::npos);
}

TEST(Advice, IsNotMadeUp) {
  EXPECT_EQ(advice_on_driver("Unknown Error", "x"), "");
  EXPECT_EQ(advice_on_driver("", "x"), "");
}

}  // namespace
}  // namespace gpuyard
