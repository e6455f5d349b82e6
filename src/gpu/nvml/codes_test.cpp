#include "nvml/codes.h"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

namespace gpuyard::nvml {
namespace {

TEST(Codes, TheTwoTextsThatToolsMatchOnAreNvmlsOwn) {
  RecordProperty("contract", "E13");
  EXPECT_EQ(text_of(kLibraryNotFound), "NVML Shared Library Not Found");
  EXPECT_EQ(text_of(kUnknown), "Unknown Error");
}

TEST(Codes, EveryCodeOfTheInterfaceHasWordsOfItsOwn) {
  std::set<std::string_view> texts;
  for (ReturnCode code = kSuccess; code <= kResetTypeNotSupported; ++code) {
    EXPECT_TRUE(texts.insert(text_of(code)).second) << code << ": " << text_of(code);
  }
}

TEST(Codes, ACodeNobodyKnowsIsAFailureWithWords) {
  EXPECT_EQ(text_of(777), "Unknown Error");
  EXPECT_EQ(missing_reason_of(777), MissingReason::failed);
  EXPECT_EQ(errc_of(777), Errc::internal);
}

TEST(Codes, EachWayOfMissingIsToldApart) {
  EXPECT_EQ(missing_reason_of(kNotSupported), MissingReason::not_supported);
  EXPECT_EQ(missing_reason_of(kFunctionNotFound), MissingReason::not_supported);
  EXPECT_EQ(missing_reason_of(kNoPermission), MissingReason::no_permission);
  EXPECT_EQ(missing_reason_of(kOperatingSystem), MissingReason::no_permission);
  EXPECT_EQ(missing_reason_of(kGpuIsLost), MissingReason::device_lost);
  EXPECT_EQ(missing_reason_of(kResetRequired), MissingReason::device_lost);
  EXPECT_EQ(missing_reason_of(kTimeout), MissingReason::failed)
      << "timed_out is for our own deadlines";
  EXPECT_EQ(missing_reason_of(kLibRmVersionMismatch), MissingReason::driver_gone);
  EXPECT_EQ(missing_reason_of(kDriverNotLoaded), MissingReason::driver_gone);
  EXPECT_EQ(missing_reason_of(kNotReady), MissingReason::not_ready);
  EXPECT_EQ(missing_reason_of(kUnknown), MissingReason::failed);
}

}  // namespace
}  // namespace gpuyard::nvml
