#include "gpu/nvml/api.h"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

#include "gpu/nvml/fake_nvml_for_tests.h"

namespace gpuyard::nvml {
namespace {

TEST(LoadLibrary, MissingLibraryIsReportedInNvmlText) {
  RecordProperty("contract", "A14 E13");
  const auto library = load_library("");
  if (library.ok()) GTEST_SKIP() << "this machine has an NVML";
  EXPECT_EQ(library.error().code, Errc::unavailable);
  EXPECT_EQ(library.error().message, "failed to initialise NVML: NVML Shared Library Not Found");
}

TEST(LoadLibrary, MissingFileIsNamedInError) {
  const auto library = load_library("/nowhere/libnvidia-ml.so.1");
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.error().code, Errc::unavailable);
  EXPECT_NE(library.error().message.find("/nowhere/libnvidia-ml.so.1"), std::string::npos);
}

TEST(LoadLibrary, MissingSymbolsReturnFunctionNotFound) {
  const auto library = load_library("libc.so.6");
  ASSERT_TRUE(library.ok()) << library.error().message;
  unsigned count = 0;
  EXPECT_EQ(library->api.init(), kFunctionNotFound);
  EXPECT_EQ(library->api.device_count(&count), kFunctionNotFound);
  EXPECT_FALSE(library->path.empty());
  EXPECT_FALSE(library->simulated);
}

// A misspelt name in the table would be "not supported" for ever.
TEST(LoadLibrary, SimulatedLibraryHasEverySymbol) {
  auto library = load_library(SIM_NVML_LIBRARY);
  ASSERT_TRUE(library.ok()) << library.error().message;
  EXPECT_TRUE(library->simulated);
  int number = 0;
  each_device_call(library->api, [&](auto& call) {
    EXPECT_NE(call.function, nullptr) << "call " << number;
    ++number;
  });
  EXPECT_GT(number, 50);
}

}  // namespace

namespace {

TEST(Codes, TextsMatchedByToolsAreNvmls) {
  RecordProperty("contract", "E13");
  EXPECT_EQ(text_of(kLibraryNotFound), "NVML Shared Library Not Found");
  EXPECT_EQ(text_of(kUnknown), "Unknown Error");
}

TEST(Codes, EveryCodeHasDistinctText) {
  std::set<std::string_view> texts;
  for (ReturnCode code = kSuccess; code <= kResetTypeNotSupported; ++code) {
    EXPECT_TRUE(texts.insert(text_of(code)).second) << code << ": " << text_of(code);
  }
}

TEST(Codes, UnknownCodeIsFailedWithText) {
  EXPECT_EQ(text_of(777), "Unknown Error");
  EXPECT_EQ(missing_reason_of(777), MissingReason::failed);
  EXPECT_EQ(errc_of(777), Errc::internal);
}

TEST(Codes, ReturnCodeMapsToMissingReason) {
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
