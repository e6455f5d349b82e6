#include "history/series.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "history/timeline.h"

namespace gpuyard::history {
namespace {

constexpr std::int64_t kSecond = 1000;

Series one(std::int64_t cadence_ms = kSecond) {
  return {Metric::power_draw, 0, cadence_ms};
}

TEST(Series, AReadingThatIsNotNewerIsNoPoint) {
  Series series = one();
  EXPECT_TRUE(series.feed(5000, 1));
  EXPECT_FALSE(series.feed(5000, 1));
  EXPECT_FALSE(series.feed(4000, 2));
  EXPECT_TRUE(series.feed(6000, 3));
  EXPECT_EQ(series.readings(0).points(0, INT64_MAX), (std::vector<Point>{{5000, 1}, {6000, 3}}));
}

RC_GTEST_PROP(Series, WhatIsReadBackIsWhatWasFed, (const std::vector<std::int64_t>& values)) {
  Series series = one();
  std::vector<Point> fed;
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Gaps, and a clock that jitters.
    const std::int64_t late =
        *rc::gen::elementOf(std::vector<std::int64_t>{0, 0, 0, 3, 700, 5000, 3600000});
    const std::int64_t at_ms = (fed.empty() ? 100'000 : fed.back().at_ms + kSecond) + late;
    RC_ASSERT(series.feed(at_ms, values[i]));
    fed.push_back({at_ms, values[i]});
  }
  const auto back = series.readings(0).points(0, INT64_MAX);
  RC_ASSERT(back.size() == fed.size());
  for (std::size_t i = 0; i < fed.size(); ++i) {
    RC_ASSERT(back[i].value == fed[i].value);
    RC_ASSERT(std::abs(back[i].at_ms - fed[i].at_ms) <= kJitterMs);
    if (i > 0) RC_ASSERT(back[i - 1].at_ms < back[i].at_ms);
  }
}

RC_GTEST_PROP(Series, TensAndMinutesAreExactlyWhatTheirReadingsComeTo,
              (const std::vector<std::int16_t>& values)) {
  Series series = one();
  std::int64_t at_ms = 7'123;
  for (const std::int16_t value : values) {
    series.feed(at_ms, value);
    at_ms += *rc::gen::elementOf(
        std::vector<std::int64_t>{kSecond, kSecond, 9 * kSecond, 200 * kSecond});
  }
  const auto readings = as_buckets(series.readings(0).points(0, INT64_MAX));
  const auto tens = series.tens(0).points(0, INT64_MAX);
  RC_ASSERT(coarser(readings, kTensMs) == tens);
  RC_ASSERT(coarser(readings, kMinuteMs) == coarser(tens, kMinuteMs));
}

TEST(Series, JitterOfMillisecondsIsNotKept) {
  Series series = one();
  for (const std::int64_t at_ms : {10'000, 11'003, 11'998, 13'001, 14'060}) series.feed(at_ms, 1);
  const auto points = series.readings(0).points(0, INT64_MAX);
  EXPECT_EQ(points[3].at_ms, 13'000);
  EXPECT_EQ(points[4].at_ms, 14'060) << "beyond jitter it is its own time";
}

TEST(Series, ALateReadingAndTheNextAreBothKept) {
  Series series = one();
  series.feed(10'000, 1);
  series.feed(10'960, 2);  // kept as of 11'000
  series.feed(10'970, 3);
  const auto points = series.readings(0).points(0, INT64_MAX);
  EXPECT_EQ(points, (std::vector<Point>{{10'000, 1}, {11'000, 2}, {11'001, 3}}));
}

TEST(Series, AnHourOfReadingsAndADayOfTensAreKept) {
  Series series = one();
  constexpr std::int64_t kHour = 3600;
  constexpr std::int64_t kDay = 24 * kHour;
  const std::int64_t start = 1'000'000;
  for (std::int64_t i = 0; i < kDay + 2 * kHour; ++i) {
    series.feed(start + i * kSecond, i % 90);
    if (i % 60 == 0) series.forget(start + i * kSecond);
  }
  const std::int64_t now = start + (kDay + 2 * kHour) * kSecond;
  const auto readings = series.readings(0).points(0, INT64_MAX);
  EXPECT_GE(readings.size(), 3600U);
  EXPECT_LE(readings.size(), 3600U + 2 * kBlockPoints);
  EXPECT_EQ(series.readings_since_ms(), readings.front().at_ms - kSecond + 1);
  const auto tens = series.tens(0).points(0, INT64_MAX);
  EXPECT_GE(tens.size(), 8640U);
  EXPECT_LE(tens.size(), 8640U + 2 * kBlockPoints);
  EXPECT_LE(series.tens_since_ms(), now - kTensKeptMs);
  EXPECT_GT(series.tens_since_ms(), start);
}

TEST(Series, TheDaysMinutesBelongToItFromItsFirstReadingOn) {
  Series series = one();
  series.feed(3 * kMinuteMs + 20'000, 1);
  EXPECT_EQ(series.minutes_since_ms(), 3 * kMinuteMs);
}

TEST(Series, ACounterIsKeptLikeAnythingElse) {
  Series series = one();
  std::vector<std::int64_t> joules;
  for (int i = 0; i < 400; ++i) {
    joules.push_back(45'000'000'000 + i * 612'345LL + i % 7);
    series.feed(1'000'000 + i * kSecond, joules.back());
  }
  const auto points = series.readings(0).points(0, INT64_MAX);
  ASSERT_EQ(points.size(), joules.size());
  for (std::size_t i = 0; i < joules.size(); ++i) EXPECT_EQ(points[i].value, joules[i]);
  const auto tens = series.tens(0).points(0, INT64_MAX);
  EXPECT_EQ(tens.front().of.min, joules.front());
  EXPECT_EQ(tens.back().of.max, joules.back());
}

}  // namespace
}  // namespace gpuyard::history
