#include "history/lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "history/store_for_tests.h"

namespace gpuyard::history {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kOffset = 1'700'000'000'000;
constexpr std::int64_t kBoot = 100 * kHourMs;  // when the daemon began

class LookupTest : public ::testing::Test {
 protected:
  // The daemon has run for so long, reading a power that counts up.
  Lookup after(std::int64_t seconds, std::int64_t since_s) {
    Series series(Metric::power_draw, 0, 1000);
    for (std::int64_t i = 0; i < seconds; ++i) {
      series.feed(kBoot + i * 1000, i);
      if (i % 60 == 0) series.forget(kBoot + i * 1000);
    }
    now_ = kBoot + seconds * 1000;
    Lookup lookup;
    lookup.question = {"GPU-1", &row_of(Metric::power_draw), 0, wall(now_ - since_s * 1000),
                       wall(now_)};
    lookup.cadence_ms = 1000;
    lookup.run = {"boot", kOffset, {}, kBoot, now_};
    lookup.readings = series.readings(0);
    lookup.tens = series.tens(0);
    lookup.readings_since_ms = series.readings_since_ms();
    lookup.tens_since_ms = series.tens_since_ms();
    lookup.minutes_since_ms = series.minutes_since_ms();
    return lookup;
  }
  static std::int64_t wall(std::int64_t at_ms) { return at_ms + kOffset; }
  static std::uint64_t readings_in(const Answer& answer) {
    std::uint64_t count = 0;
    for (const TimelinePoint& point : answer.points) count += point.of.count;
    return count;
  }

  std::int64_t now_ = 0;
  FakeStore store_;
};

TEST_F(LookupTest, TheLastMinutesAreReadings) {
  const Answer answer = history::answer(after(1800, 600), store_);
  EXPECT_EQ(answer.resolution, Resolution::reading);
  EXPECT_EQ(answer.step_ms, 0);
  ASSERT_EQ(answer.points.size(), 600U);
  EXPECT_EQ(answer.points.front().wall_ms, wall(now_ - 600'000));
  EXPECT_EQ(answer.points.back().of, Aggregate::of(1799));
  EXPECT_THAT(answer.notes, IsEmpty());
}

TEST_F(LookupTest, MorePointsThanWantedBecomeStepsOfARoundLength) {
  Lookup lookup = after(3500, 3400);
  lookup.question.points = 100;
  const Answer answer = history::answer(lookup, store_);
  EXPECT_EQ(answer.step_ms, 60'000);
  EXPECT_LE(answer.points.size(), 100U);
  EXPECT_EQ(readings_in(answer), 3400U);
}

TEST_F(LookupTest, SomeHoursAreTens) {
  const Answer answer = history::answer(after(5LL * 3600, 2LL * 3600), store_);
  EXPECT_EQ(answer.resolution, Resolution::ten_seconds);
  EXPECT_EQ(answer.step_ms, kTensMs);
  EXPECT_NEAR(static_cast<double>(answer.points.size()), 720, 1);
}

TEST_F(LookupTest, ADaemonThatIsYoungAndHasNothingOnDiskAnswersWithItsReadings) {
  const Answer answer = history::answer(after(300, 7200), store_);
  EXPECT_EQ(answer.resolution, Resolution::reading);
  EXPECT_EQ(answer.points.size(), 300U);
  EXPECT_EQ(answer.covers_since_ms, wall(kBoot));
  EXPECT_THAT(answer.notes, Contains(HasSubstr("nothing is kept before")));
}

TEST_F(LookupTest, AfterARestartTheMinutesOfTheRunBeforeGoOn) {
  std::vector<Bucket> before;
  for (std::int64_t minute = -60; minute < 0; ++minute) {
    before.push_back({kBoot + minute * kMinuteMs, {5, 5, 0, 60}});
  }
  store_.past = {{{"boot", kOffset, {}, kBoot - kHourMs, kBoot - 1}, false, before}};
  const Answer answer = history::answer(after(300, 7200), store_);
  EXPECT_EQ(store_.asked, (SeriesKey{"GPU-1", "power_draw_w", 0}));
  EXPECT_EQ(answer.resolution, Resolution::minute);
  EXPECT_EQ(answer.points.size(), 65U);
  EXPECT_EQ(readings_in(answer), 3900U);
  EXPECT_EQ(answer.covers_since_ms, wall(kBoot - kHourMs));
  EXPECT_THAT(answer.notes, Contains(HasSubstr("each reading since")))
      << "the finer ones began with the daemon";
}

TEST_F(LookupTest, WhatThisRunHasOnDiskAndInMemoryIsCountedOnce) {
  const Lookup lookup = after(300, 7200);
  std::vector<Bucket> same;
  for (std::int64_t minute = 0; minute < 4; ++minute) {
    same.push_back({kBoot + minute * kMinuteMs, {0, 0, 0, 60}});
  }
  store_.past = {{{"old", kOffset - 1, {}, kBoot - kHourMs, kBoot - 1},
                  false,
                  {{kBoot - kHourMs, Aggregate::of(1)}}},
                 {lookup.run, true, same}};
  EXPECT_EQ(readings_in(history::answer(lookup, store_)), 301U);
}

TEST_F(LookupTest, AStoreThatFailsIsANoteAndMemoryAnswers) {
  store_.broken = Error{Errc::unavailable, "disk I/O error"};
  store_.said = {"history.db began anew"};
  const Answer answer = history::answer(after(300, 7200), store_);
  EXPECT_EQ(answer.points.size(), 300U);
  EXPECT_THAT(answer.notes, Contains(HasSubstr("disk I/O error")));
  EXPECT_THAT(answer.notes, Contains("history.db began anew"));
}

TEST_F(LookupTest, AStepOfTheClockIsSaidAndMovesNoPoint) {
  Lookup lookup = after(1800, 600);
  const auto before = history::answer(lookup, store_).points;
  lookup.run.wall_offset_ms -= kHourMs;
  lookup.run.steps = {{now_ - 60'000, -kHourMs}};
  lookup.question.from_ms -= kHourMs;
  lookup.question.until_ms -= kHourMs;
  const Answer after_step = history::answer(lookup, store_);
  ASSERT_EQ(after_step.points.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after_step.points[i].wall_ms, before[i].wall_ms - kHourMs);
    EXPECT_EQ(after_step.points[i].of, before[i].of);
  }
  EXPECT_THAT(after_step.notes, Contains(HasSubstr("set back by 3600 s")));
}

}  // namespace
}  // namespace gpuyard::history
