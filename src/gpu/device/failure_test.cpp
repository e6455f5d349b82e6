#include "device/failure.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

TEST(Failures, AreEachCauseOnceAndNotWhatAGpuDoesNotSupport) {
  const Missing lost{MissingReason::device_lost, "GPU is lost"};
  const Missing unknown{MissingReason::failed, "Unknown Error"};
  Sample sample;
  sample.set({Metric::memory_used, 0, {}, lost});
  sample.set({Metric::memory_free, 0, {}, lost});
  sample.set({Metric::utilization_gpu, 0, {}, Missing{MissingReason::not_supported, ""}});
  sample.set({Metric::temperature_core, 0, {}, unknown});
  sample.set({Metric::power_draw, 0, {}, Missing{MissingReason::not_ready, ""}});
  sample.set({Metric::power_limit, 0, {}, std::int64_t{700'000}});
  EXPECT_EQ(failures(sample), (std::vector<Missing>{lost, unknown}));
}

}  // namespace
}  // namespace gpuyard
