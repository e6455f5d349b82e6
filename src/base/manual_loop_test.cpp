#include "base/manual_loop_for_tests.h"

#include <string>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ManualLoop, TimeStandsStillUntilItIsMoved) {
  ManualLoop loop;
  const TimePoint start = loop.now();
  EXPECT_EQ(loop.now(), start);
  loop.advance(seconds(3));
  EXPECT_EQ(loop.now() - start, seconds(3));
}

TEST(ManualLoop, TimersRunInDeadlineOrder) {
  ManualLoop loop;
  std::string order;
  const auto b = loop.call_after(seconds(2), [&] { order += 'b'; });
  const auto a = loop.call_after(seconds(1), [&] { order += 'a'; });
  const auto c = loop.call_after(seconds(2), [&] { order += 'c'; });
  loop.advance(seconds(2));
  EXPECT_EQ(order, "abc");
}

TEST(ManualLoop, TimerRunsAtItsSetTime) {
  ManualLoop loop;
  const TimePoint start = loop.now();
  TimePoint seen;
  const auto timer = loop.call_after(seconds(1), [&] { seen = loop.now(); });
  loop.advance(seconds(10));
  EXPECT_EQ(seen - start, seconds(1));
}

TEST(ManualLoop, BothClocksMoveTogether) {
  ManualLoop loop;
  const WallTime start = loop.wall();
  WallTime seen;
  const auto timer = loop.call_after(seconds(1), [&] { seen = loop.wall(); });
  for (int i = 0; i < 10'000; ++i) loop.advance(std::chrono::microseconds(500));
  EXPECT_EQ(seen - start, seconds(1));
  EXPECT_EQ(loop.wall() - start, seconds(5));
}

TEST(ManualLoop, ATimerRunsOnce) {
  ManualLoop loop;
  int runs = 0;
  const auto timer = loop.call_after(seconds(1), [&] { ++runs; });
  loop.advance(seconds(5));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(loop.timers(), 0U);
}

TEST(ManualLoop, ReschedulingTimerKeepsItsRhythm) {
  ManualLoop loop;
  int runs = 0;
  Subscription timer;
  std::function<void()> tick = [&] {
    ++runs;
    timer = loop.call_after(seconds(1), tick);
  };
  timer = loop.call_after(seconds(1), tick);
  loop.advance(seconds(5));
  EXPECT_EQ(runs, 5);
}

TEST(ManualLoop, PastDeadlineRunsOnNextTurn) {
  ManualLoop loop;
  bool ran = false;
  const auto timer = loop.call_at(loop.now() - seconds(5), [&] { ran = true; });
  EXPECT_FALSE(ran);
  loop.advance(milliseconds(0));
  EXPECT_TRUE(ran);
}

TEST(ManualLoop, ATimerEndsWithItsSubscription) {
  ManualLoop loop;
  bool ran = false;
  {
    const auto timer = loop.call_after(seconds(1), [&] { ran = true; });
  }
  loop.advance(seconds(2));
  EXPECT_FALSE(ran);
}

TEST(ManualLoop, PostedWorkRunsInOrderAndPostsMore) {
  ManualLoop loop;
  std::string order;
  loop.post([&] {
    order += 'a';
    loop.post([&] { order += 'c'; });
  });
  loop.post([&] { order += 'b'; });
  EXPECT_EQ(order, "");
  loop.run_posted();
  EXPECT_EQ(order, "abc");
}

TEST(ManualLoop, TaskPostedByTimerRunsBeforeNextTimer) {
  ManualLoop loop;
  std::string order;
  const auto first = loop.call_after(seconds(1), [&] { loop.post([&] { order += 'p'; }); });
  const auto second = loop.call_after(seconds(2), [&] { order += 't'; });
  loop.advance(seconds(2));
  EXPECT_EQ(order, "pt");
}

TEST(ManualLoop, MadeReadableDescriptorRunsCallback) {
  ManualLoop loop;
  int reads = 0;
  const auto watch = loop.watch(7, [&] { ++reads; });
  loop.make_readable(7);
  loop.make_readable(7);
  loop.make_readable(8);
  EXPECT_EQ(reads, 2);
}

TEST(ManualLoop, AWatchMayEndItselfInsideItsCallback) {
  ManualLoop loop;
  int reads = 0;
  Subscription watch;
  watch = loop.watch(7, [&] {
    ++reads;
    watch.reset();
  });
  loop.make_readable(7);
  loop.make_readable(7);
  EXPECT_EQ(reads, 1);
}

TEST(Subscription, MoveKeepsActiveAndAssignmentCancelsPrevious) {
  std::string cancelled;
  Subscription first([&] { cancelled += '1'; });
  Subscription moved(std::move(first));
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): the empty state is what is tested
  EXPECT_EQ(cancelled, "");
  moved = Subscription([&] { cancelled += '2'; });
  EXPECT_EQ(cancelled, "1");
}

TEST(Clock, WallTimeIsShownInUtcWithMilliseconds) {
  EXPECT_EQ(to_rfc3339(WallTime(milliseconds(1'700'000'000'250))), "2023-11-14T22:13:20.250Z");
  EXPECT_EQ(to_rfc3339(WallTime(milliseconds(0))), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(to_rfc3339(WallTime(milliseconds(-1))), "1969-12-31T23:59:59.999Z");
}

TEST(Clock, TheBootClockNeverStepsBack) {
  const TimePoint before = BootClock::now();
  EXPECT_GE(BootClock::now(), before);
}

}  // namespace
}  // namespace gpuyard
