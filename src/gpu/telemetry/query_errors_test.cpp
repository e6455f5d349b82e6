#include "gpu/telemetry/query_errors.h"

#include <string>

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "gpu/telemetry/telemetry_for_tests.h"

namespace gpuyard::telemetry {
namespace {

Sample failing(MissingReason reason, const std::string& text) {
  return missing_sample({Probe::memory, Probe::power}, {reason, text}, {});
}

TEST(QueryErrors, RepeatedCauseIsLoggedOnceAndCounted) {
  RecordProperty("contract", "E9");
  const CapturedLog log;
  QueryErrors errors;
  for (int i = 0; i < 3; ++i) errors.record(kGpu, failing(MissingReason::failed, "Unknown Error"));
  EXPECT_EQ(log.lines(),
            std::vector<std::string>{"ERROR Error querying GPU device 0: Unknown Error"});
  EXPECT_EQ(errors.count("GPU-a"), 3U);
}

TEST(QueryErrors, AnotherCauseAndAnotherGpuAreLoggedToo) {
  const CapturedLog log;
  QueryErrors errors;
  const DeviceInfo other{"GPU-b", 1, "GPU-b", "", "H100", {}};
  errors.record(kGpu, failing(MissingReason::failed, "Unknown Error"));
  errors.record(kGpu, failing(MissingReason::device_lost, "GPU is lost"));
  errors.record(other, failing(MissingReason::failed, "Unknown Error"));
  EXPECT_EQ(log.lines().size(), 3U);
}

TEST(QueryErrors, UnsupportedOrNotReadyIsNoError) {
  const CapturedLog log;
  QueryErrors errors;
  errors.record(kGpu, failing(MissingReason::not_supported, "Not Supported"));
  errors.record(kGpu, failing(MissingReason::not_ready, ""));
  EXPECT_TRUE(log.lines().empty());
  EXPECT_EQ(errors.count("GPU-a"), 0U);
}

TEST(QueryErrors, DistinctCausesAreBoundedInLogButCounted) {
  const CapturedLog log;
  QueryErrors errors;
  for (int i = 0; i < 5000; ++i) {
    errors.record(kGpu, Missing{MissingReason::failed, "cause " + std::to_string(i)});
  }
  EXPECT_LE(log.lines().size(), QueryErrors::kMaxCauses + 1);
  EXPECT_EQ(errors.count("GPU-a"), 5000U);
}

}  // namespace

}  // namespace gpuyard::telemetry
