#include "base/loop_lag.h"

#include <chrono>

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"

namespace gpuyard {
namespace {

using std::chrono::milliseconds;

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
