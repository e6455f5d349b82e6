#include "history/timeline.h"

#include <gtest/gtest.h>

#include "history/series.h"

namespace gpuyard::history {
namespace {

constexpr Grain kReadings{1000, 0, 0};
constexpr Grain kTens{1000, kTensMs, kTensMs};

Bucket bucket(std::int64_t at_ms, std::int64_t value = 1) {
  return {at_ms, Aggregate::of(value)};
}
std::vector<std::int64_t> times(const std::vector<TimelinePoint>& points) {
  std::vector<std::int64_t> out;
  for (const TimelinePoint& point : points) {
    out.push_back(point.of.count > 0 ? point.wall_ms : -point.wall_ms);
  }
  return out;  // a gap is negative
}

TEST(Timeline, ReadingsStandWhereTheWallClockWas) {
  const auto points = timeline({{"a", 500'000, {bucket(1000, 7), bucket(2000, 8)}}}, kReadings);
  EXPECT_EQ(points,
            (std::vector<TimelinePoint>{{501'000, Aggregate::of(7)}, {502'000, Aggregate::of(8)}}));
}

TEST(Timeline, AMissingReadingIsOneGap) {
  EXPECT_EQ(times(timeline({{"a", 0, {bucket(1000), bucket(2000), bucket(4000)}}}, kReadings)),
            (std::vector<std::int64_t>{1000, 2000, -3000, 4000}));
  EXPECT_EQ(times(timeline({{"a", 0, {bucket(1000), bucket(9'000'000)}}}, kReadings)),
            (std::vector<std::int64_t>{1000, -2000, 9'000'000}))
      << "so is a night of suspend";
}

TEST(Timeline, AReadingThatIsALittleLateIsNoGap) {
  EXPECT_EQ(times(timeline({{"a", 0, {bucket(1000), bucket(2400)}}}, kReadings)),
            (std::vector<std::int64_t>{1000, 2400}));
}

TEST(Timeline, TensWithoutReadingsAreAGap) {
  EXPECT_EQ(times(timeline({{"a", 0, {bucket(10'000), bucket(20'000), bucket(50'000)}}}, kTens)),
            (std::vector<std::int64_t>{10'000, 20'000, -30'000, 50'000}));
}

TEST(Timeline, ARhythmOfAMinuteMayMissAMinutesSpan) {
  // Readings at 59 s, 120 s and 180 s: none in the second minute, and none is missing.
  const Grain minutes{60'000, kMinuteMs, kMinuteMs};
  EXPECT_EQ(times(timeline({{"a", 0, {bucket(0), bucket(120'000), bucket(180'000)}}}, minutes)),
            (std::vector<std::int64_t>{0, 120'000, 180'000}));
  EXPECT_EQ(times(timeline({{"a", 0, {bucket(0), bucket(180'000)}}}, minutes)),
            (std::vector<std::int64_t>{0, -60'000, 180'000}));
}

TEST(Timeline, BetweenTwoBootsIsAGap) {
  EXPECT_EQ(
      times(timeline({{"a", 100'000, {bucket(1000)}}, {"b", 300'000, {bucket(5)}}}, kReadings)),
      (std::vector<std::int64_t>{101'000, -102'000, 300'005}));
}

TEST(Timeline, TwoRunsInOneMinuteAreOnePoint) {
  const Grain minutes{1000, kMinuteMs, kMinuteMs};
  const auto points =
      timeline({{"a", 0, {bucket(60'000, 10)}}, {"a", 0, {bucket(60'000, 30)}}}, minutes);
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].of.count, 2U);
  EXPECT_EQ(points[0].of.mean(), 20);
}

TEST(Timeline, LongerStepsBeginAtRoundTimesOfTheWall) {
  const Grain grain{1000, kTensMs, kMinuteMs};
  std::vector<Bucket> buckets;
  for (int i = 0; i < 12; ++i) buckets.push_back(bucket(1'000'000 + i * kTensMs, i));
  const auto points = timeline({{"a", 7'000, std::move(buckets)}}, grain);
  for (const TimelinePoint& point : points) EXPECT_EQ(point.wall_ms % kMinuteMs, 0);
  std::uint32_t count = 0;
  for (const TimelinePoint& point : points) count += point.of.count;
  EXPECT_EQ(count, 12U) << "each is in one step";
}

}  // namespace
}  // namespace gpuyard::history
