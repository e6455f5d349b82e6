#include "device/event.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

using std::chrono::seconds;

constexpr TimePoint kNow{std::chrono::hours(1)};

TEST(EventLimit, PassesABurstAndThenARate) {
  EventLimit limit(10, 2);
  int passed = 0;
  for (int i = 0; i < 100; ++i) passed += limit.admit("GPU-a", kNow) ? 1 : 0;
  EXPECT_EQ(passed, 10);
  for (int i = 0; i < 100; ++i) passed += limit.admit("GPU-a", kNow + seconds(3)) ? 1 : 0;
  EXPECT_EQ(passed, 16);
}

TEST(EventLimit, AFloodOfOneGpuCostsAnotherNothing) {
  EventLimit limit(10, 2);
  for (int i = 0; i < 100; ++i) static_cast<void>(limit.admit("GPU-a", kNow));
  EXPECT_TRUE(limit.admit("GPU-b", kNow));
}

TEST(EventLimit, WhatWasRefusedIsToldOnceWhenTheFloodEbbs) {
  EventLimit limit(10, 2);
  for (int i = 0; i < 100; ++i) static_cast<void>(limit.admit("GPU-a", kNow));
  EXPECT_TRUE(limit.take_refused(EventSource::driver, kNow).empty());
  EXPECT_TRUE(limit.holds_back());
  const auto told = limit.take_refused(EventSource::driver, kNow + seconds(1));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].device, "GPU-a");
  EXPECT_EQ(told[0].kind, EventKind::events_lost);
  EXPECT_EQ(told[0].text, "90 more events were not passed on: too many at once");
  EXPECT_FALSE(limit.holds_back());
  EXPECT_TRUE(limit.take_refused(EventSource::driver, kNow + seconds(2)).empty());
}

}  // namespace
}  // namespace gpuyard
