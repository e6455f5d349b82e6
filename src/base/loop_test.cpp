#include "base/loop.h"

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"

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

TEST(LoopLag, ALoopThatKeepsUpHasNone) {
  ManualLoop loop;
  const LoopLag lag(loop);
  loop.advance(std::chrono::seconds(10));
  EXPECT_EQ(lag.histogram().count(), 40U);
  EXPECT_EQ(lag.histogram().cumulative_count(0), 40U);
  EXPECT_EQ(lag.histogram().sum(), Duration::zero());
}

TEST(LoopLag, ACallbackThatBlocksIsSeen) {
  ManualLoop loop;
  const LoopLag lag(loop);
  const auto block = loop.call_after(milliseconds(100), [&] { loop.stall(milliseconds(400)); });
  loop.advance(milliseconds(999));
  // It was due at 250 ms and ran at 500 ms; the next ones are on time.
  EXPECT_EQ(lag.histogram().sum(), milliseconds(250));
  EXPECT_EQ(lag.histogram().count(), 2U);
}

}  // namespace
}  // namespace gpuyard
