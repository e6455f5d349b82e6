#include "core/history/timeline.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "core/history/rings.h"
#include "core/history/store_for_tests.h"

namespace gpuyard::history {
namespace {

constexpr Grain kReadings{1000, 0, 0};
constexpr Grain kTens{1000, kTenSecondsMs, kTenSecondsMs};

Bucket bucket(std::int64_t at_ms, std::int64_t value = 1) {
  return {at_ms, Aggregate::of(value)};
}
std::vector<std::int64_t> times(const std::vector<TimelinePoint>& points) {
  std::vector<std::int64_t> out;
  for (const TimelinePoint& point : points) {
    out.push_back(point.aggregate.count > 0 ? point.wall_ms : -point.wall_ms);
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

TEST(Timeline, SlightlyLateReadingIsNoGap) {
  EXPECT_EQ(times(timeline({{"a", 0, {bucket(1000), bucket(2400)}}}, kReadings)),
            (std::vector<std::int64_t>{1000, 2400}));
}

TEST(Timeline, TensWithoutReadingsAreAGap) {
  EXPECT_EQ(times(timeline({{"a", 0, {bucket(10'000), bucket(20'000), bucket(50'000)}}}, kTens)),
            (std::vector<std::int64_t>{10'000, 20'000, -30'000, 50'000}));
}

TEST(Timeline, MinuteCadenceMayLeaveMinuteEmpty) {
  // Readings at 59 s, 120 s and 180 s: the second minute has none, and none is missing.
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
  EXPECT_EQ(points[0].aggregate.count, 2U);
  EXPECT_EQ(points[0].aggregate.mean(), 20);
}

TEST(Timeline, LongStepsBeginAtRoundWallTimes) {
  const Grain grain{1000, kTenSecondsMs, kMinuteMs};
  std::vector<Bucket> buckets;
  for (int i = 0; i < 12; ++i) buckets.push_back(bucket(1'000'000 + i * kTenSecondsMs, i));
  const auto points = timeline({{"a", 7'000, std::move(buckets)}}, grain);
  for (const TimelinePoint& point : points) EXPECT_EQ(point.wall_ms % kMinuteMs, 0);
  std::uint32_t count = 0;
  for (const TimelinePoint& point : points) count += point.aggregate.count;
  EXPECT_EQ(count, 12U) << "each is in one step";
}

}  // namespace

namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kOffset = 1'700'000'000'000;
constexpr std::int64_t kBoot = 100 * kHourMs;  // when the daemon began

class PreparedQueryTest : public ::testing::Test {
 protected:
  // Returns a lookup after this run time, in which the power counted up.
  PreparedQuery after(std::int64_t seconds, std::int64_t since_s) {
    Series series(Metric::power_draw, 0, 1000);
    for (std::int64_t i = 0; i < seconds; ++i) {
      series.append(kBoot + i * 1000, i);
      if (i % 60 == 0) series.evict_expired(kBoot + i * 1000);
    }
    now_ = kBoot + seconds * 1000;
    PreparedQuery lookup;
    lookup.query = {"GPU-1", &row_of(Metric::power_draw), 0, wall(now_ - since_s * 1000),
                    wall(now_)};
    lookup.cadence_ms = 1000;
    lookup.run = {"boot", kOffset, {}, kBoot, now_};
    lookup.readings = series.readings(0);
    lookup.ten_second_buckets = series.ten_second_buckets(0);
    lookup.readings_since_ms = series.readings_since_ms();
    lookup.ten_seconds_since_ms = series.ten_seconds_since_ms();
    lookup.minutes_since_ms = series.minutes_since_ms();
    return lookup;
  }
  static std::int64_t wall(std::int64_t at_ms) { return at_ms + kOffset; }
  static std::uint64_t readings_in(const QueryResult& answer) {
    std::uint64_t count = 0;
    for (const TimelinePoint& point : answer.points) count += point.aggregate.count;
    return count;
  }

  std::int64_t now_ = 0;
  FakeMinuteStorage store_;
};

TEST_F(PreparedQueryTest, TheLastMinutesAreReadings) {
  const QueryResult answer = history::execute_query(after(1800, 600), store_);
  EXPECT_EQ(answer.resolution, Resolution::reading);
  EXPECT_EQ(answer.step_ms, 0);
  ASSERT_EQ(answer.points.size(), 600U);
  EXPECT_EQ(answer.points.front().wall_ms, wall(now_ - 600'000));
  EXPECT_EQ(answer.points.back().aggregate, Aggregate::of(1799));
  EXPECT_THAT(answer.notes, IsEmpty());
}

TEST_F(PreparedQueryTest, ExcessPointsBecomeRoundSteps) {
  PreparedQuery lookup = after(3500, 3400);
  lookup.query.points = 100;
  const QueryResult answer = history::execute_query(lookup, store_);
  EXPECT_EQ(answer.step_ms, 60'000);
  EXPECT_LE(answer.points.size(), 100U);
  EXPECT_EQ(readings_in(answer), 3400U);
}

TEST_F(PreparedQueryTest, SomeHoursAreTens) {
  const QueryResult answer = history::execute_query(after(5LL * 3600, 2LL * 3600), store_);
  EXPECT_EQ(answer.resolution, Resolution::ten_seconds);
  EXPECT_EQ(answer.step_ms, kTenSecondsMs);
  EXPECT_NEAR(static_cast<double>(answer.points.size()), 720, 1);
}

TEST_F(PreparedQueryTest, YoungDaemonWithoutStorageAnswersWithReadings) {
  const QueryResult answer = history::execute_query(after(300, 7200), store_);
  EXPECT_EQ(answer.resolution, Resolution::reading);
  EXPECT_EQ(answer.points.size(), 300U);
  EXPECT_EQ(answer.covers_since_ms, wall(kBoot));
  EXPECT_THAT(answer.notes, Contains(HasSubstr("no data before")));
}

TEST_F(PreparedQueryTest, RestartContinuesWithMinutesOfEarlierRun) {
  std::vector<Bucket> before;
  for (std::int64_t minute = -60; minute < 0; ++minute) {
    before.push_back({kBoot + minute * kMinuteMs, {5, 5, 0, 60}});
  }
  store_.past = {{{"boot", kOffset, {}, kBoot - kHourMs, kBoot - 1}, false, before}};
  const QueryResult answer = history::execute_query(after(300, 7200), store_);
  EXPECT_EQ(store_.asked, (SeriesKey{"GPU-1", "power_draw_w", 0}));
  EXPECT_EQ(answer.resolution, Resolution::minute);
  EXPECT_EQ(answer.points.size(), 65U);
  EXPECT_EQ(readings_in(answer), 3900U);
  EXPECT_EQ(answer.covers_since_ms, wall(kBoot - kHourMs));
  EXPECT_THAT(answer.notes, Contains(HasSubstr("single readings since")))
      << "the finer ones began with the daemon";
}

TEST_F(PreparedQueryTest, MinutesOnDiskAndInMemoryCountOnce) {
  const PreparedQuery lookup = after(300, 7200);
  std::vector<Bucket> same;
  for (std::int64_t minute = 0; minute < 4; ++minute) {
    same.push_back({kBoot + minute * kMinuteMs, {0, 0, 0, 60}});
  }
  store_.past = {{{"old", kOffset - 1, {}, kBoot - kHourMs, kBoot - 1},
                  false,
                  {{kBoot - kHourMs, Aggregate::of(1)}}},
                 {lookup.run, true, same}};
  EXPECT_EQ(readings_in(history::execute_query(lookup, store_)), 301U);
}

TEST_F(PreparedQueryTest, FailedStorageAddsNoteToMemoryResult) {
  store_.broken = Error{Errc::unavailable, "disk I/O error"};
  store_.said = {"history.db began anew"};
  const QueryResult answer = history::execute_query(after(300, 7200), store_);
  EXPECT_EQ(answer.points.size(), 300U);
  EXPECT_THAT(answer.notes, Contains(HasSubstr("disk I/O error")));
  EXPECT_THAT(answer.notes, Contains("history.db began anew"));
}

TEST_F(PreparedQueryTest, ClockStepIsNotedWithoutRegroupingPoints) {
  PreparedQuery lookup = after(1800, 600);
  const auto before = history::execute_query(lookup, store_).points;
  lookup.run.wall_offset_ms -= kHourMs;
  lookup.run.clock_steps = {{now_ - 60'000, -kHourMs}};
  lookup.query.from_ms -= kHourMs;
  lookup.query.until_ms -= kHourMs;
  const QueryResult after_step = history::execute_query(lookup, store_);
  ASSERT_EQ(after_step.points.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after_step.points[i].wall_ms, before[i].wall_ms - kHourMs);
    EXPECT_EQ(after_step.points[i].aggregate, before[i].aggregate);
  }
  EXPECT_THAT(after_step.notes, Contains(HasSubstr("set back by 3600 s")));
}

}  // namespace

namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kHour = 3'600'000;

TimePoint boot(std::int64_t ms) {
  return TimePoint(milliseconds(ms));
}
WallTime wall(std::int64_t ms) {
  return WallTime(milliseconds(ms));
}

TEST(WallClock, ClockStepShiftsBootAndIsRecorded) {
  WallClock clock("boot");
  clock.update(boot(1000), wall(500'000));
  EXPECT_EQ(clock.run().wall_offset_ms, 499'000);
  clock.update(boot(2000), wall(501'000 + kHour));
  EXPECT_EQ(clock.run().wall_offset_ms, 499'000 + kHour);
  clock.update(boot(3000), wall(502'000));
  EXPECT_EQ(clock.run().wall_offset_ms, 499'000);
  EXPECT_EQ(clock.run().clock_steps, (std::vector<ClockStep>{{2000, kHour}, {3000, -kHour}}));
  EXPECT_EQ(clock.run().first_ms, 1000);
  EXPECT_EQ(clock.run().last_ms, 3000);
}

TEST(WallClock, JitterIsIgnoredWhileSlewIsFollowed) {
  WallClock clock("boot");
  clock.update(boot(1000), wall(500'000));
  clock.update(boot(2000), wall(501'020));
  EXPECT_EQ(clock.run().wall_offset_ms, 499'000);
  clock.update(boot(3000), wall(502'300));
  EXPECT_EQ(clock.run().wall_offset_ms, 499'300) << "a slewed clock is followed";
  EXPECT_TRUE(clock.run().clock_steps.empty());
}

TEST(WallClock, RepeatedStepsAreBounded) {
  WallClock clock("boot");
  for (int i = 0; i < 100; ++i) clock.update(boot(i * 1000LL), wall(i % 2 == 0 ? 0 : 10 * kHour));
  EXPECT_EQ(clock.run().clock_steps.size(), kMaxClockSteps);
}

TEST(AlignRuns, RunsOfSameBootUseNewestOffset) {
  std::vector<DaemonRun> runs = {{"a", 100, {}, 0, 10}, {"a", 900, {}, 20, 30}};
  align_runs(runs);
  EXPECT_EQ(runs[0].wall_offset_ms, 900);
  EXPECT_EQ(runs[1].wall_offset_ms, 900);
}

TEST(AlignRuns, OverlappingBootIsShiftedBeforeNextBoot) {
  // The first boot ran from 10'000 to 11'000, but the next one began at 5'000.
  std::vector<DaemonRun> runs = {
      {"a", 10'000, {}, 0, 500}, {"a", 10'000, {}, 600, 1000}, {"b", 5'000, {}, 0, 100}};
  align_runs(runs);
  EXPECT_EQ(runs[2].wall_offset_ms, 5'000);
  EXPECT_EQ(runs[1].last_ms + runs[1].wall_offset_ms, 4'999);
  EXPECT_EQ(runs[0].wall_offset_ms, runs[1].wall_offset_ms);
}

TEST(AlignRuns, OrderedBootsStayUnchanged) {
  const std::vector<DaemonRun> runs = {{"a", 1000, {}, 0, 500}, {"b", 2000, {}, 0, 100}};
  std::vector<DaemonRun> settled = runs;
  align_runs(settled);
  EXPECT_EQ(settled, runs);
}

}  // namespace
}  // namespace gpuyard::history
