#include "core/processes/process_table.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/processes/proc_tree_for_tests.h"

namespace gpuyard::processes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TimePoint at_ms(std::int64_t ms) {
  return TimePoint(std::chrono::milliseconds(ms));
}

class ProcessTableTest : public ::testing::Test {
 protected:
  ProcessTableTest() { proc_.put({.pid = 1, .command = "init", .parent = 0}); }
  ProcessTable read() {
    auto table = read_process_table(proc_.root());
    EXPECT_TRUE(table) << table.error().message;
    return *std::move(table);
  }

  ProcTree proc_;
};

TEST_F(ProcessTableTest, RowsAreSortedAndFoundByPid) {
  proc_.put({.pid = 70, .start_ticks = 5, .command = "a) S (b", .parent = 9});
  proc_.put({.pid = 9, .start_ticks = 3});
  proc_.write(proc_.root() + "/uptime", "1 1\n");
  const auto table = read();
  EXPECT_TRUE(table.complete);
  EXPECT_THAT(
      table.rows,
      ElementsAre(ProcessRow{.process = {1, at_ms(0)}, .command = "init"},
                  ProcessRow{.process = {9, at_ms(30)}, .parent = 1, .command = "python3"},
                  ProcessRow{.process = {70, at_ms(50)}, .parent = 9, .command = "a) S (b"}));
  EXPECT_EQ(table.find(70), &table.rows[2]);
  EXPECT_EQ(table.find(71), nullptr);
  EXPECT_EQ(table.find(10), nullptr);
}

TEST_F(ProcessTableTest, ZombieWithLiveThreadsCountsAsRunning) {
  proc_.put({.pid = 7, .state = 'Z'});
  proc_.put({.pid = 8, .state = 'Z', .threads = 2});
  proc_.put({.pid = 9, .state = 'D'});
  const auto table = read();
  EXPECT_TRUE(table.find(7)->ended);
  EXPECT_FALSE(table.find(8)->ended);
  EXPECT_FALSE(table.find(9)->ended);
  EXPECT_TRUE(table.find(9)->in_kernel);
}

TEST_F(ProcessTableTest, ProcessVanishingDuringReadIsOmitted) {
  proc_.put({.pid = 7});
  std::filesystem::remove(proc_.at(7) + "/stat");
  const auto table = read();
  EXPECT_EQ(table.find(7), nullptr);
  EXPECT_THAT(table.unreadable, IsEmpty());
}

TEST_F(ProcessTableTest, MalformedStatIsListedAsUnreadable) {
  proc_.put({.pid = 7});
  proc_.write(proc_.at(7) + "/stat", "nonsense");
  const auto table = read();
  EXPECT_EQ(table.find(7), nullptr);
  EXPECT_THAT(table.unreadable, ElementsAre(7U));
}

TEST_F(ProcessTableTest, TableWithoutPidOneIsIncomplete) {
  proc_.remove(1);
  EXPECT_FALSE(read().complete);
}

TEST_F(ProcessTableTest, TableBeyondLimitIsIncomplete) {
  // Links to one directory cost less than directories.
  for (std::size_t i = 0; i < ProcessTable::kMaxRows; ++i) {
    ASSERT_EQ(::symlink("1", proc_.at(static_cast<std::uint32_t>(i) + 2).c_str()), 0);
  }
  const auto table = read();
  EXPECT_FALSE(table.complete);
  EXPECT_EQ(table.rows.size(), ProcessTable::kMaxRows);
}

TEST_F(ProcessTableTest, UnmountedProcIsError) {
  EXPECT_FALSE(read_process_table("/nowhere/proc"));
}

TEST_F(ProcessTableTest, OfThisMachineHasThisProcess) {
  const auto table = read_process_table("/proc");
  ASSERT_TRUE(table);
  const ProcessRow* const self = table->find(static_cast<std::uint32_t>(::getpid()));
  ASSERT_NE(self, nullptr);
  EXPECT_EQ(self->parent, static_cast<std::uint32_t>(::getppid()));
  EXPECT_EQ(self->command, "core_test");
}

}  // namespace
}  // namespace gpuyard::processes
