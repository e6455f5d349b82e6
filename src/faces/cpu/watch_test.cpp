#include "cpu/watch.h"

#include <optional>

#include <gtest/gtest.h>

#include "base/manual_loop.h"
#include "base/manual_worker_for_tests.h"
#include "cpu/rapl_tree_for_tests.h"

namespace gpuyard::cpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CpuWatch : public ::testing::Test {
 protected:
  CpuWatch() { tree_.put_package(0, 100); }

  void work() {
    loop_.run_posted();
    worker_.run_all();
    loop_.run_posted();
  }
  // Moves time on with a worker that is never busy.
  void pass(Duration time) {
    for (Duration gone{}; gone < time; gone += milliseconds(10)) {
      loop_.advance(milliseconds(10));
      work();
    }
  }
  void ask(std::optional<Result<Energies>>& to) {
    watch_.fresh([&to](const Result<Energies>& read) { to = read; });
  }
  std::int64_t energy() const { return *watch_.latest().packages.at(0).energy_uj; }

  RaplTree tree_;
  ManualLoop loop_;
  ManualWorker worker_;
  Watch watch_{loop_, worker_, tree_.root()};
};

TEST_F(CpuWatch, KnowsThePackagesSoonAfterItsStart) {
  EXPECT_EQ(watch_.latest().why_none, "CPU energy was not read yet");
  watch_.start();
  work();
  EXPECT_EQ(energy(), 100);
}

TEST_F(CpuWatch, LooksOftenEnoughThatNoRoundIsMissed) {
  watch_.start();
  work();
  for (int round = 1; round <= 3; ++round) {
    RaplTree::set(tree_.package(0), 100 - round);
    pass(Watch::kLookEvery);
  }
  EXPECT_EQ(energy(), 3 * RaplTree::kRange + 97);
}

TEST_F(CpuWatch, AFreshReadingIsNewerThanTheQuestion) {
  std::optional<Result<Energies>> first, second;
  ask(first);
  EXPECT_FALSE(first);
  const auto under_way = worker_.waiting();
  ask(second);  // shares the next one
  EXPECT_EQ(worker_.waiting(), under_way);
  work();
  ASSERT_TRUE(first && first->ok());
  ASSERT_TRUE(second && second->ok());
  EXPECT_GE((*second)->taken, (*first)->taken);
  EXPECT_EQ(*(*first)->packages.at(0).energy_uj, 100);
}

TEST_F(CpuWatch, AStuckWorkerIsNotWaitedForAndIsHeardLater) {
  std::optional<Result<Energies>> first, second, third;
  ask(first);
  ask(second);
  loop_.advance(Watch::kPatience);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->error().code, Errc::timed_out);
  EXPECT_EQ(second->error().code, Errc::timed_out);
  ask(third);
  EXPECT_EQ(worker_.waiting(), 1U);  // it is not asked again before it has answered
  work();
  EXPECT_EQ(energy(), 100);
  EXPECT_TRUE(third && third->ok());
}

TEST_F(CpuWatch, AFullWorkerIsAskedAgainByTheNext) {
  worker_.full = true;
  std::optional<Result<Energies>> first, second, third;
  ask(first);
  ask(second);
  loop_.advance(Watch::kPatience);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->error().code, Errc::timed_out);
  EXPECT_EQ(second->error().code, Errc::timed_out);
  worker_.full = false;
  ask(third);
  work();
  EXPECT_TRUE(third && third->ok());
}

TEST_F(CpuWatch, MoreCallersThanItHoldsAreToldSo) {
  std::size_t busy = 0, answered = 0;
  for (std::size_t i = 0; i < Watch::kMostCallers + 5; ++i) {
    watch_.fresh([&](const Result<Energies>& read) {
      ++answered;
      if (!read && read.error().code == Errc::busy) ++busy;
    });
  }
  EXPECT_EQ(answered, 0U);
  work();
  EXPECT_EQ(busy, 5U);
  EXPECT_EQ(answered, Watch::kMostCallers + 5);
}

TEST_F(CpuWatch, ListenersHearTenTimesASecondAndOnlyWhileTheyListen) {
  std::size_t one = 0, other = 0;
  auto first = watch_.listen([&](const Energies&) { ++one; });
  {
    const auto second = watch_.listen([&](const Energies&) { ++other; });
    pass(seconds(1));
    EXPECT_NEAR(static_cast<double>(one), 10, 1);
    EXPECT_EQ(one, other);
  }
  pass(seconds(1));
  EXPECT_NEAR(static_cast<double>(one), 20, 2);
  EXPECT_NEAR(static_cast<double>(other), 10, 1);
  first.reset();
  EXPECT_EQ(watch_.listeners(), 0U);
  EXPECT_EQ(loop_.timers(), 0U);
}

TEST_F(CpuWatch, AListenerMayLeaveWhileItHears) {
  std::size_t heard = 0;
  Subscription own;
  own = watch_.listen([&](const Energies&) {
    ++heard;
    own.reset();
  });
  pass(seconds(1));
  EXPECT_EQ(heard, 1U);
}

TEST_F(CpuWatch, AStuckWorkerMakesListenersWaitAndQueuesNothing) {
  std::size_t heard = 0;
  const auto listening = watch_.listen([&](const Energies&) { ++heard; });
  loop_.advance(seconds(30));
  EXPECT_EQ(worker_.waiting(), 1U);
  EXPECT_EQ(heard, 0U);
  pass(seconds(1));
  EXPECT_NEAR(static_cast<double>(heard), 10, 1);
}

TEST(CpuWatchGone, AnAnswerThatComesAfterItHasGoneIsDropped) {
  RaplTree tree;
  ManualLoop loop;
  ManualWorker worker;
  Subscription listening;
  {
    Watch watch(loop, worker, tree.root());
    watch.start();
    listening = watch.listen([](const Energies&) {});
  }
  worker.run_all();
  loop.advance(seconds(60));
  listening.reset();
  EXPECT_EQ(loop.timers(), 0U);
}

}  // namespace
}  // namespace gpuyard::cpu
