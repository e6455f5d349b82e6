#include "base/keyed_rate_limiter.h"

#include <chrono>
#include <cstddef>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

using std::chrono::seconds;

TEST(KeyedRateLimiter, OneDoesNotUseUpAnothers) {
  KeyedRateLimiter<int> rates(60);
  const TimePoint now{};
  for (int i = 0; i < 60; ++i) EXPECT_FALSE(rates.take(1, now));
  EXPECT_EQ(rates.take(1, now), seconds(1));
  EXPECT_FALSE(rates.take(2, now));
}

TEST(KeyedRateLimiter, KeysBeyondMaxShareBucketUntilRefill) {
  KeyedRateLimiter<std::size_t> rates(60);
  TimePoint now{};
  for (std::size_t key = 0; key < KeyedRateLimiter<std::size_t>::kMaxKeys; ++key)
    rates.take(key, now);
  for (int i = 0; i < 60; ++i) EXPECT_FALSE(rates.take(5000, now)) << "the share of all others";
  EXPECT_TRUE(rates.take(6000, now));
  now += seconds(60);
  EXPECT_FALSE(rates.take(6000, now));
}

}  // namespace

}  // namespace gpuyard
