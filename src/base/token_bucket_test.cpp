#include "base/token_bucket.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(TokenBucket, AllowsBurstThenRatePerSecond) {
  TimePoint now{};
  TokenBucket bucket(3, 2, now);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(bucket.take(now));
  EXPECT_EQ(bucket.take(now), milliseconds(500));
  now += milliseconds(500);
  EXPECT_FALSE(bucket.take(now));
  EXPECT_TRUE(bucket.take(now));
  now += seconds(100);
  EXPECT_TRUE(bucket.is_full(now));
}

}  // namespace
}  // namespace gpuyard
