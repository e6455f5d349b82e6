#include "io/http/loop.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace gpuyard::http {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

constexpr Duration kLoopTestTimeout = std::chrono::seconds(20);

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
    read_end = UniqueFd(ends[0]);
    write_end = UniqueFd(ends[1]);
  }
  void put() const { EXPECT_EQ(::write(write_end.get(), "x", 1), 1); }
  void take() const {
    char c = 0;
    EXPECT_EQ(::read(read_end.get(), &c, 1), 1);
  }
  UniqueFd read_end;
  UniqueFd write_end;
};

TEST(IoLoop, TimersFireInDeadlineOrder) {
  IoLoop loop;
  std::vector<int> order;
  std::array<Subscription, 3> timers;
  TimePoint first;
  do {  // again, if a busy machine let a moment pass before all were set
    first = loop.now() + milliseconds(2);
    timers = {loop.call_at(first + milliseconds(2), [&] { order.push_back(3); }),
              loop.call_at(first, [&] { order.push_back(1); }),
              loop.call_at(first, [&] { order.push_back(2); })};
  } while (loop.now() >= first);
  EXPECT_TRUE(loop.run_until([&] { return order.size() == 3; }, kLoopTestTimeout));
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(IoLoop, ATimerDoesNotFireBeforeItsMoment) {
  IoLoop loop;
  const TimePoint when = loop.now() + milliseconds(3);
  std::optional<TimePoint> fired;
  const auto timer = loop.call_at(when, [&] { fired = loop.now(); });
  EXPECT_TRUE(loop.run_until([&] { return fired.has_value(); }, kLoopTestTimeout));
  EXPECT_GE(*fired, when);
}

TEST(IoLoop, PastDeadlineFiresAsynchronously) {
  IoLoop loop;
  bool fired = false;
  const auto timer = loop.call_at(TimePoint{}, [&] { fired = true; });
  EXPECT_FALSE(fired);
  EXPECT_TRUE(loop.run_until([&] { return fired; }, kLoopTestTimeout));
}

TEST(IoLoop, SelfRearmingTimerDoesNotStarvePostedWork) {
  IoLoop loop;
  Subscription timer;
  std::function<void()> again = [&] { timer = loop.call_at(TimePoint{}, again); };
  again();
  bool posted = false;
  loop.post([&] { posted = true; });
  EXPECT_TRUE(loop.run_until([&] { return posted; }, kLoopTestTimeout));
}

TEST(IoLoop, ACancelledTimerStaysSilent) {
  IoLoop loop;
  bool cancelled_fired = false;
  bool later_fired = false;
  auto timer = loop.call_after(milliseconds(1), [&] { cancelled_fired = true; });
  const auto later = loop.call_after(milliseconds(3), [&] { later_fired = true; });
  timer.reset();
  EXPECT_TRUE(loop.run_until([&] { return later_fired; }, kLoopTestTimeout));
  EXPECT_FALSE(cancelled_fired);
}

TEST(IoLoop, ATimerMayCancelItselfAndOthersWhileItRuns) {
  IoLoop loop;
  const TimePoint when = loop.now() + milliseconds(1);
  Subscription first;
  Subscription second;
  bool first_fired = false;
  bool second_fired = false;
  first = loop.call_at(when, [&] {
    first.reset();
    second.reset();
    first_fired = true;
  });
  second = loop.call_at(when, [&] { second_fired = true; });
  EXPECT_TRUE(loop.run_until([&] { return first_fired; }, kLoopTestTimeout));
  loop.poll();
  EXPECT_FALSE(second_fired);
}

TEST(IoLoop, ASubscriptionMayOutliveTheLoop) {
  Subscription timer;
  Subscription watch;
  const Pipe pipe;
  {
    IoLoop loop;
    timer = loop.call_after(std::chrono::hours(1), [] {});
    watch = loop.watch(pipe.read_end.get(), [] {});
  }
  timer.reset();
  watch.reset();
}

TEST(IoLoop, ReadableWatchIsLevelTriggered) {
  IoLoop loop;
  const Pipe pipe;
  int calls = 0;
  const auto watch = loop.watch(pipe.read_end.get(), [&] {
    if (++calls >= 3) pipe.take();
  });
  loop.poll();
  EXPECT_EQ(calls, 0);
  pipe.put();
  EXPECT_TRUE(loop.run_until([&] { return calls == 3; }, kLoopTestTimeout));
  loop.poll();
  EXPECT_EQ(calls, 3);
  pipe.put();
  EXPECT_TRUE(loop.run_until([&] { return calls == 4; }, kLoopTestTimeout));
}

TEST(IoLoop, AWatchFiresWhenThePeerCloses) {
  IoLoop loop;
  Pipe pipe;
  bool closed = false;
  Subscription watch = loop.watch(pipe.read_end.get(), [&] {
    closed = true;
    watch.reset();
  });
  pipe.write_end.reset();
  EXPECT_TRUE(loop.run_until([&] { return closed; }, kLoopTestTimeout));
  loop.poll();
}

TEST(IoLoop, AnEndedWatchStaysSilent) {
  IoLoop loop;
  const Pipe pipe;
  bool called = false;
  auto watch = loop.watch(pipe.read_end.get(), [&] { called = true; });
  pipe.put();
  watch.reset();
  loop.poll();
  EXPECT_FALSE(called);
}

// Both events are queued when the first handler runs. Asio reuses what it kept of the descriptor
// that this handler closes for the one that it opens.
TEST(IoLoop, ANewWatchGetsNoEventOfAnEndedOne) {
  IoLoop loop;
  const std::array<Pipe, 2> readable;
  const Pipe silent;
  std::array<Subscription, 2> watches;
  Subscription fresh;
  bool called = false;
  for (std::size_t i = 0; i < 2; ++i) {
    readable.at(i).put();
    watches.at(i) = loop.watch(readable.at(i).read_end.get(), [&] {
      for (Subscription& watch : watches) watch.reset();
      fresh = loop.watch(silent.read_end.get(), [&] { called = true; });
    });
  }
  for (int i = 0; i < 10; ++i) loop.poll();
  EXPECT_FALSE(called);
}

TEST(IoLoop, AWatchLeavesTheDescriptorBlocking) {
  IoLoop loop;
  const Pipe pipe;
  const auto watch = loop.watch(pipe.read_end.get(), [] {});
  loop.poll();
  EXPECT_EQ(::fcntl(pipe.read_end.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(IoLoop, OneDescriptorMayBeWatchedTwice) {
  IoLoop loop;
  const Pipe pipe;
  bool first = false;
  bool second = false;
  const auto a = loop.watch(pipe.read_end.get(), [&] { first = true; });
  const auto b = loop.watch(pipe.read_end.get(), [&] { second = true; });
  pipe.put();
  EXPECT_TRUE(loop.run_until([&] { return first && second; }, kLoopTestTimeout));
}

TEST(IoLoop, PostsFromOtherThreadRunUntilStop) {
  IoLoop loop;
  int done = 0;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) loop.post([&] { ++done; });
    loop.post([&] { loop.stop(); });
  });
  loop.run();
  other.join();
  EXPECT_EQ(done, 100);
}

TEST(IoLoop, StopFromAnotherThreadEndsRun) {
  IoLoop loop;
  std::thread other([&] { loop.stop(); });
  loop.run();
  other.join();
}

TEST(IoLoop, DeliversSignalsUntilTheSubscriptionEnds) {
  IoLoop loop;
  std::vector<int> received;
  {
    const auto signals =
        loop.watch_signals({SIGUSR1, SIGUSR2}, [&](int n) { received.push_back(n); });
    ::raise(SIGUSR2);
    EXPECT_TRUE(loop.run_until([&] { return received.size() == 1; }, kLoopTestTimeout));
    ::raise(SIGUSR1);
    EXPECT_TRUE(loop.run_until([&] { return received.size() == 2; }, kLoopTestTimeout));
  }
  loop.poll();
  EXPECT_THAT(received, ElementsAre(SIGUSR2, SIGUSR1));
}

}  // namespace
}  // namespace gpuyard::http
