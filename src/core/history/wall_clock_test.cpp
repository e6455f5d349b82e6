#include "history/wall_clock.h"

#include <gtest/gtest.h>

namespace gpuyard::history {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kHour = 3'600'000;

TimePoint boot(std::int64_t ms) {
  return TimePoint(milliseconds(ms));
}
WallTime wall(std::int64_t ms) {
  return WallTime(milliseconds(ms));
}

TEST(WallClock, AStepMovesTheWholeBootAndIsRemembered) {
  WallClock clock("boot");
  clock.note(boot(1000), wall(500'000));
  EXPECT_EQ(clock.run().wall_offset_ms, 499'000);
  clock.note(boot(2000), wall(501'000 + kHour));
  EXPECT_EQ(clock.run().wall_offset_ms, 499'000 + kHour);
  clock.note(boot(3000), wall(502'000));
  EXPECT_EQ(clock.run().wall_offset_ms, 499'000);
  EXPECT_EQ(clock.run().steps, (std::vector<ClockStep>{{2000, kHour}, {3000, -kHour}}));
  EXPECT_EQ(clock.run().first_ms, 1000);
  EXPECT_EQ(clock.run().last_ms, 3000);
}

TEST(WallClock, JitterBetweenTheTwoClocksMovesNothing) {
  WallClock clock("boot");
  clock.note(boot(1000), wall(500'000));
  clock.note(boot(2000), wall(501'020));
  EXPECT_EQ(clock.run().wall_offset_ms, 499'000);
  clock.note(boot(3000), wall(502'300));
  EXPECT_EQ(clock.run().wall_offset_ms, 499'300) << "a slewed clock is followed";
  EXPECT_TRUE(clock.run().steps.empty());
}

TEST(WallClock, AClockThatIsSetAgainAndAgainIsRememberedInBounds) {
  WallClock clock("boot");
  for (int i = 0; i < 100; ++i) clock.note(boot(i * 1000LL), wall(i % 2 == 0 ? 0 : 10 * kHour));
  EXPECT_EQ(clock.run().steps.size(), kMaxClockSteps);
}

TEST(Settle, RunsOfOneBootAreToldByTheNewest) {
  std::vector<DaemonRun> runs = {{"a", 100, {}, 0, 10}, {"a", 900, {}, 20, 30}};
  settle(runs);
  EXPECT_EQ(runs[0].wall_offset_ms, 900);
  EXPECT_EQ(runs[1].wall_offset_ms, 900);
}

TEST(Settle, ABootWhoseClockWasAheadIsMovedBeforeTheNext) {
  // The first boot ran from 10'000 to 11'000 of a clock that the next one knows to be 5'000.
  std::vector<DaemonRun> runs = {
      {"a", 10'000, {}, 0, 500}, {"a", 10'000, {}, 600, 1000}, {"b", 5'000, {}, 0, 100}};
  settle(runs);
  EXPECT_EQ(runs[2].wall_offset_ms, 5'000);
  EXPECT_EQ(runs[1].last_ms + runs[1].wall_offset_ms, 4'999);
  EXPECT_EQ(runs[0].wall_offset_ms, runs[1].wall_offset_ms);
}

TEST(Settle, BootsInOrderStayWhereTheyAre) {
  const std::vector<DaemonRun> runs = {{"a", 1000, {}, 0, 500}, {"b", 2000, {}, 0, 100}};
  std::vector<DaemonRun> settled = runs;
  settle(settled);
  EXPECT_EQ(settled, runs);
}

}  // namespace
}  // namespace gpuyard::history
