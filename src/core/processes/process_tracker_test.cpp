#include "core/processes/process_tracker.h"

#include <gtest/gtest.h>

#include "base/manual_worker_for_tests.h"
#include "core/processes/proc_tree_for_tests.h"

namespace gpuyard::processes {
namespace {

constexpr TimePoint kTaken{std::chrono::hours(1)};

Snapshot listing(std::initializer_list<std::uint32_t> pids, TimePoint taken = kTaken) {
  DeviceState device;
  std::vector<GpuProcess> processes;
  for (const std::uint32_t pid : pids) processes.push_back({pid, {}, {}, {}});
  device.sample.set(ProcessList{taken, std::move(processes)});
  Snapshot snapshot;
  snapshot.driver.info.simulated = true;
  snapshot.devices = {device};
  return snapshot;
}

class ProcessTrackerTest : public ::testing::Test {
 protected:
  std::string command_of(std::uint32_t pid) {
    const auto facts = watch_.directory().find(pid);
    return facts ? (*facts)->command : "?";
  }

  ProcTree proc_;
  ManualWorker worker_;
  ProcessTracker watch_{worker_, proc_.root(), false};
};

TEST_F(ProcessTrackerTest, ListedProcessIsResolvedByWorker) {
  proc_.put({.pid = 7, .real_uid = 0, .uid = 0});
  watch_.on_snapshot(listing({7, 8}));
  EXPECT_EQ(watch_.directory().find(7).error().message, "not looked up yet");
  worker_.run_all();
  EXPECT_EQ(command_of(7), "python3");
  EXPECT_EQ(*(*watch_.directory().find(7))->user, "root");
  EXPECT_EQ(watch_.directory().find(8).error().code, Errc::not_found);
}

TEST_F(ProcessTrackerTest, OnlyNewListTriggersQueries) {
  proc_.put({.pid = 7});
  watch_.on_snapshot(listing({7}));
  worker_.run_all();
  watch_.on_snapshot(listing({7}));
  EXPECT_EQ(worker_.waiting(), 0U);
  watch_.on_snapshot(listing({7}, kTaken + std::chrono::seconds(5)));
  EXPECT_EQ(worker_.waiting(), 1U);
}

TEST_F(ProcessTrackerTest, ReusedPidIsDetected) {
  proc_.put({.pid = 7, .start_ticks = 100, .command = "first"});
  watch_.on_snapshot(listing({7}));
  worker_.run_all();
  proc_.put({.pid = 7, .start_ticks = 200, .command = "first", .real_uid = 5, .uid = 5});
  watch_.on_snapshot(listing({7}, kTaken + std::chrono::seconds(5)));
  worker_.run_all();
  EXPECT_EQ((*watch_.directory().find(7))->uid, 5U);
}

TEST_F(ProcessTrackerTest, ChangedProgramIsNoticed) {
  proc_.put({.pid = 7, .start_ticks = 100, .command = "sh"});
  watch_.on_snapshot(listing({7}));
  worker_.run_all();
  proc_.put({.pid = 7, .start_ticks = 100, .command = "python3"});
  watch_.on_snapshot(listing({7}, kTaken + std::chrono::seconds(5)));
  worker_.run_all();
  EXPECT_EQ(command_of(7), "python3");
}

TEST_F(ProcessTrackerTest, StuckWorkerGetsNoSecondRequest) {
  watch_.on_snapshot(listing({7}));
  watch_.on_snapshot(listing({7, 8}, kTaken + std::chrono::seconds(5)));
  EXPECT_EQ(worker_.waiting(), 1U);
  proc_.put({.pid = 8});
  worker_.run_all();
  EXPECT_EQ(command_of(8), "?");
  watch_.on_snapshot(listing({7, 8}, kTaken + std::chrono::seconds(5)));
  worker_.run_all();
  EXPECT_EQ(command_of(8), "python3");
}

TEST_F(ProcessTrackerTest, FullWorkerIsRetriedOnNextSnapshot) {
  proc_.put({.pid = 7});
  worker_.full = true;
  watch_.on_snapshot(listing({7}));
  worker_.full = false;
  watch_.on_snapshot(listing({7}));
  worker_.run_all();
  EXPECT_EQ(command_of(7), "python3");
}

TEST_F(ProcessTrackerTest, ProcessOnSeveralGpusIsListedOnce) {
  auto snapshot = listing({7});
  snapshot.devices.push_back(listing({7}, kTaken + std::chrono::seconds(1)).devices.front());
  EXPECT_EQ(list_times_of(snapshot),
            (ProcessCache::ListTimes{{7, kTaken + std::chrono::seconds(1)}}));
}

TEST_F(ProcessTrackerTest, ThousandsOfProcessesAreQueried) {
  Snapshot snapshot;
  snapshot.driver.info.simulated = true;
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu) {
    std::vector<GpuProcess> processes;
    for (std::uint32_t i = 1; i <= kMaxListedProcesses; ++i) {
      processes.push_back({gpu * 10'000 + i, {}, {}, {}});
    }
    snapshot.devices.emplace_back().sample.set(ProcessList{kTaken, std::move(processes)});
  }
  proc_.put({.pid = 30'001, .command = "last"});
  watch_.on_snapshot(snapshot);
  worker_.run_all();
  EXPECT_EQ(command_of(30'001), "last");
  EXPECT_EQ(watch_.directory().find(1).error().code, Errc::not_found);
}

TEST_F(ProcessTrackerTest, PidFromRecordingIsUnsupported) {
  proc_.put({.pid = 7});
  ProcessTracker replaying(worker_, proc_.root(), true);
  replaying.on_snapshot(listing({7}));
  worker_.run_all();
  EXPECT_EQ(replaying.directory().find(7).error().code, Errc::unsupported);
}

}  // namespace
}  // namespace gpuyard::processes
