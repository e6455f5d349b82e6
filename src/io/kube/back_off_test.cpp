#include "io/kube/back_off.h"

#include <gtest/gtest.h>

namespace gpuyard::kube {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

TEST(BackOff, WaitDoublesFromOneSecondToAMinute) {
  EXPECT_EQ(back_off(1, {}, 0), seconds(1));
  EXPECT_EQ(back_off(1, {}, 1), seconds(2));
  EXPECT_EQ(back_off(2, {}, 0), seconds(2));
  EXPECT_EQ(back_off(5, {}, 1), seconds(32));
  EXPECT_EQ(back_off(6, {}, 0), seconds(30));
  EXPECT_EQ(back_off(1'000'000, {}, 1), seconds(60));
}

TEST(BackOff, EveryWaitIsWithinItsBounds) {
  for (unsigned failures = 0; failures < 100; ++failures) {
    for (const double random : {-1.0, 0.0, 0.5, 1.0, 2.0}) {
      EXPECT_GE(back_off(failures, {}, random), kMinBackOff);
      EXPECT_LE(back_off(failures, {}, random), kMaxBackOff);
    }
  }
}

TEST(BackOff, RetryAfterIsALowerBound) {
  EXPECT_EQ(back_off(1, seconds(40), 0), seconds(40));
  EXPECT_EQ(back_off(1, seconds(40), 1), seconds(41));
  EXPECT_EQ(back_off(6, seconds(1), 0), seconds(30));
  EXPECT_EQ(back_off(1, seconds(0), 0), seconds(1));
}

TEST(BackOff, ExcessiveRetryAfterIsCut) {
  EXPECT_EQ(back_off(1, hours(24 * 365), 0), kMaxRetryAfter);
}

}  // namespace
}  // namespace gpuyard::kube
