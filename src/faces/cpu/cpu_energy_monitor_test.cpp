#include "faces/cpu/cpu_energy_monitor.h"

#include <optional>

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "faces/cpu/rapl_tree_for_tests.h"

namespace gpuyard::cpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CpuEnergyMonitorTest : public ::testing::Test {
 protected:
  CpuEnergyMonitorTest() { tree_.put_package(0, 100); }

  void work() {
    loop_.run_posted();
    worker_.run_all();
    loop_.run_posted();
  }
  // Lets time pass with a worker that is never busy.
  void pass(Duration time) {
    for (Duration elapsed{}; elapsed < time; elapsed += milliseconds(10)) {
      loop_.advance(milliseconds(10));
      work();
    }
  }
  void read_fresh_into(std::optional<Result<Energies>>& to) {
    monitor_.read_fresh([&to](const Result<Energies>& read) { to = read; });
  }
  std::int64_t energy() const { return *monitor_.latest().packages.at(0).energy_uj; }

  RaplTree tree_;
  ManualLoop loop_;
  ManualWorker worker_;
  CpuEnergyMonitor monitor_{loop_, worker_, tree_.root()};
};

TEST_F(CpuEnergyMonitorTest, KnowsThePackagesSoonAfterItsStart) {
  EXPECT_EQ(monitor_.latest().unavailable_reason, "CPU energy has not been read yet");
  monitor_.start();
  work();
  EXPECT_EQ(energy(), 100);
}

TEST_F(CpuEnergyMonitorTest, PollIntervalCatchesEveryWraparound) {
  monitor_.start();
  work();
  for (int round = 1; round <= 3; ++round) {
    RaplTree::set(tree_.package(0), 100 - round);
    pass(CpuEnergyMonitor::kReadInterval);
  }
  EXPECT_EQ(energy(), 3 * RaplTree::kRange + 97);
}

TEST_F(CpuEnergyMonitorTest, FreshReadingIsNewerThanRequest) {
  std::optional<Result<Energies>> first, second;
  read_fresh_into(first);
  EXPECT_FALSE(first);
  const auto under_way = worker_.waiting();
  read_fresh_into(second);  // shares the next one
  EXPECT_EQ(worker_.waiting(), under_way);
  work();
  ASSERT_TRUE(first && first->ok());
  ASSERT_TRUE(second && second->ok());
  EXPECT_GE((*second)->taken, (*first)->taken);
  EXPECT_EQ(*(*first)->packages.at(0).energy_uj, 100);
}

TEST_F(CpuEnergyMonitorTest, StuckWorkerTimesOutAndRecovers) {
  std::optional<Result<Energies>> first, second, third;
  read_fresh_into(first);
  read_fresh_into(second);
  loop_.advance(CpuEnergyMonitor::kReadTimeout);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->error().code, Errc::timed_out);
  EXPECT_EQ(second->error().code, Errc::timed_out);
  read_fresh_into(third);
  EXPECT_EQ(worker_.waiting(), 1U);  // no second request before the first reply
  work();
  EXPECT_EQ(energy(), 100);
  EXPECT_TRUE(third && third->ok());
}

TEST_F(CpuEnergyMonitorTest, NextReadRetriesFullWorker) {
  worker_.full = true;
  std::optional<Result<Energies>> first, second, third;
  read_fresh_into(first);
  read_fresh_into(second);
  loop_.advance(CpuEnergyMonitor::kReadTimeout);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->error().code, Errc::timed_out);
  EXPECT_EQ(second->error().code, Errc::timed_out);
  worker_.full = false;
  read_fresh_into(third);
  work();
  EXPECT_TRUE(third && third->ok());
}

TEST_F(CpuEnergyMonitorTest, ExcessCallersGetBusy) {
  std::size_t busy = 0, answered = 0;
  for (std::size_t i = 0; i < CpuEnergyMonitor::kMaxCallers + 5; ++i) {
    monitor_.read_fresh([&](const Result<Energies>& read) {
      ++answered;
      if (!read && read.error().code == Errc::busy) ++busy;
    });
  }
  EXPECT_EQ(answered, 0U);
  work();
  EXPECT_EQ(busy, 5U);
  EXPECT_EQ(answered, CpuEnergyMonitor::kMaxCallers + 5);
}

TEST_F(CpuEnergyMonitorTest, SubscribersGetTenReadingsPerSecondUntilUnsubscribed) {
  std::size_t one = 0, other = 0;
  auto first = monitor_.subscribe([&](const Energies&) { ++one; });
  {
    const auto second = monitor_.subscribe([&](const Energies&) { ++other; });
    pass(seconds(1));
    EXPECT_NEAR(static_cast<double>(one), 10, 1);
    EXPECT_EQ(one, other);
  }
  pass(seconds(1));
  EXPECT_NEAR(static_cast<double>(one), 20, 2);
  EXPECT_NEAR(static_cast<double>(other), 10, 1);
  first.reset();
  EXPECT_EQ(monitor_.subscriber_count(), 0U);
  EXPECT_EQ(loop_.timers(), 0U);
}

TEST_F(CpuEnergyMonitorTest, CallbackMayEndItsSubscription) {
  std::size_t calls = 0;
  Subscription own;
  own = monitor_.subscribe([&](const Energies&) {
    ++calls;
    own.reset();
  });
  pass(seconds(1));
  EXPECT_EQ(calls, 1U);
}

TEST_F(CpuEnergyMonitorTest, StuckWorkerDelaysSubscribersWithoutQueueing) {
  std::size_t calls = 0;
  const auto listening = monitor_.subscribe([&](const Energies&) { ++calls; });
  loop_.advance(seconds(30));
  EXPECT_EQ(worker_.waiting(), 1U);
  EXPECT_EQ(calls, 0U);
  pass(seconds(1));
  EXPECT_NEAR(static_cast<double>(calls), 10, 1);
}

TEST(CpuEnergyMonitorEnd, LateReplyAfterDestructionIsDropped) {
  RaplTree tree;
  ManualLoop loop;
  ManualWorker worker;
  Subscription listening;
  {
    CpuEnergyMonitor watch(loop, worker, tree.root());
    watch.start();
    listening = watch.subscribe([](const Energies&) {});
  }
  worker.run_all();
  loop.advance(seconds(60));
  listening.reset();
  EXPECT_EQ(loop.timers(), 0U);
}

}  // namespace
}  // namespace gpuyard::cpu
