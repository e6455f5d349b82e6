#include "base/histogram.h"

#include <chrono>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

using std::chrono::milliseconds;

TEST(Histogram, CountsUpToAndIncludingEachBound) {
  Histogram histogram;
  histogram.add(milliseconds(5));
  histogram.add(std::chrono::microseconds(5'001));
  histogram.add(std::chrono::hours(1));
  EXPECT_EQ(histogram.cumulative_count(2), 0U);
  EXPECT_EQ(histogram.cumulative_count(3), 1U);  // 5 ms
  EXPECT_EQ(histogram.cumulative_count(4), 2U);  // 10 ms
  EXPECT_EQ(histogram.cumulative_count(Histogram::kBounds.size() - 1), 2U);
  EXPECT_EQ(histogram.count(), 3U);
}

}  // namespace

}  // namespace gpuyard
