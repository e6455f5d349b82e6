#include "device/bounds.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

TEST(Bounds, OfAReadingIsAnotherOfTheSameGpu) {
  Sample sample;
  sample.set({Metric::power_limit, 0, {}, std::int64_t{700'000}});
  sample.set({Metric::memory_total, 0, {}, std::int64_t{80} << 30});
  EXPECT_EQ(upper_bound_of(Metric::power_draw, sample), 700'000);
  EXPECT_EQ(upper_bound_of(Metric::memory_used, sample), std::int64_t{80} << 30);
  EXPECT_EQ(upper_bound_of(Metric::clock_sm, sample), std::nullopt) << "not known now";
  EXPECT_EQ(upper_bound_of(Metric::energy_total, sample), std::nullopt) << "it has none";
}

TEST(Bounds, PercentagesEndAtAHundred) {
  EXPECT_EQ(upper_bound_of(Metric::utilization_gpu, {}), 100);
}

}  // namespace
}  // namespace gpuyard
