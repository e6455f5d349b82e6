#include "core/processes/process_reader.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "core/processes/identify.h"
#include "core/processes/proc_tree_for_tests.h"

namespace gpuyard::processes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ProcessReaderTest : public ::testing::Test {
 protected:
  ProcTree proc_;
  ProcessReader reader_{proc_.root()};
};

TEST_F(ProcessReaderTest, ProcessFilesYieldFactsWithoutUserName) {
  proc_.put({.pid = 7, .start_ticks = 12345, .real_uid = 1000, .uid = 1001});
  const auto facts = reader_.read(7);
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(facts->pid, 7U);
  EXPECT_EQ(facts->started, TimePoint(std::chrono::milliseconds(123'450)));
  EXPECT_EQ(facts->real_uid, 1000U);
  EXPECT_EQ(facts->uid, 1001U);
  EXPECT_EQ(facts->command, "python3");
  EXPECT_THAT(*facts->arguments, ElementsAre("python3", "train.py"));
  EXPECT_EQ(facts->cgroup->unit, "session-3.scope");
  EXPECT_FALSE(facts->user) << "that may wait for a directory service";
}

TEST_F(ProcessReaderTest, OwnProcessIsReadFromRealProc) {
  const auto facts = ProcessReader().read(static_cast<std::uint32_t>(::getpid()));
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(facts->command, "core_test");
  EXPECT_EQ(facts->uid, ::geteuid());
  EXPECT_NE(facts->arguments->front().find("core_test"), std::string::npos);
  EXPECT_LE(facts->started, BootClock::now());
  EXPECT_LE(facts->started_at, wall_now());
  EXPECT_GT(facts->started_at, wall_now() - std::chrono::hours(1));
  EXPECT_TRUE(facts->cgroup);
}

TEST_F(ProcessReaderTest, CommandWithStatDelimitersIsReadWhole) {
  proc_.put({.pid = 7, .start_ticks = 5, .command = "a) S 1 (b"});
  EXPECT_EQ(reader_.read(7)->command, "a) S 1 (b");
}

TEST_F(ProcessReaderTest, MissingProcessErrorMentionsPidNamespace) {
  const auto facts = reader_.read(7);
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, Errc::not_found);
  EXPECT_NE(facts.error().message.find("another PID in this namespace"), std::string::npos);
  EXPECT_EQ(reader_.read_stat_summary(7).error().code, Errc::not_found);
}

TEST_F(ProcessReaderTest, AProcThatIsNotMountedIsNamed) {
  const auto facts = ProcessReader("/nowhere/proc").read(7);
  ASSERT_FALSE(facts);
  EXPECT_NE(facts.error().message.find("/nowhere/proc"), std::string::npos);
}

TEST_F(ProcessReaderTest, ProcessVanishingDuringReadIsNotFound) {
  proc_.put({.pid = 7});
  std::filesystem::remove(proc_.at(7) + "/status");
  EXPECT_EQ(reader_.read(7).error().code, Errc::not_found);
  std::filesystem::remove(proc_.at(7) + "/stat");
  EXPECT_EQ(reader_.read(7).error().code, Errc::not_found);
}

// The number is reused between the two reads of stat.
TEST_F(ProcessReaderTest, FactsNeverMixTwoProcesses) {
  const ProcTree::Process first{.pid = 7, .start_ticks = 100, .command = "first"};
  const ProcTree::Process second{.pid = 7, .start_ticks = 200, .command = "second"};
  proc_.put(first);
  const std::string stat = proc_.at(7) + "/stat";
  std::filesystem::remove(stat);
  ASSERT_EQ(::symlink((stat + ".1").c_str(), stat.c_str()), 0);
  ProcTree::write(stat + ".1", ProcTree::stat_of(first));
  // The cgroup file is a link to a pipe whose writer changes the number's owner.
  const std::string cgroup = proc_.at(7) + "/cgroup";
  std::filesystem::remove(cgroup);
  ASSERT_EQ(::mkfifo(cgroup.c_str(), 0600), 0);
  const pid_t writer = ::fork();
  if (writer == 0) {
    std::ofstream pipe(cgroup);  // waits for the reader
    ProcTree::write(cgroup + ".2", "0::/second.slice\n");
    std::filesystem::rename(cgroup + ".2", cgroup);
    ProcTree::write(stat + ".2", ProcTree::stat_of(second));
    std::filesystem::rename(stat + ".2", stat + ".1");
    pipe << "0::/first.slice\n";
    pipe.close();
    ::_exit(0);
  }
  Result<ProcessMetadata> facts = Error{};
  // Without a writer the pipe reads as empty: reads until the change happened in the middle.
  do {
    facts = reader_.read(7);
  } while (facts && facts->command == "first");
  ::waitpid(writer, nullptr, 0);
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(facts->command, "second");
  EXPECT_EQ(facts->started, TimePoint(std::chrono::seconds(2)));
  ASSERT_TRUE(facts->cgroup) << facts->cgroup.error().message;
  EXPECT_EQ(facts->cgroup->slice, "second.slice");
}

TEST_F(ProcessReaderTest, AThreadOfTheKernelHasNoArguments) {
  proc_.put({.pid = 2, .command = "kworker/0:1-events", .cmdline = "", .cgroup = "0::/\n"});
  const auto facts = reader_.read(2);
  EXPECT_THAT(*facts->arguments, IsEmpty());
  EXPECT_EQ(facts->command, "kworker/0:1-events");
}

TEST_F(ProcessReaderTest, ArgumentsOfUninterruptibleProcessAreNotRead) {
  proc_.put({.pid = 7, .state = 'D'});
  const auto facts = reader_.read(7);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->arguments.error().code, Errc::busy);
}

TEST_F(ProcessReaderTest, AZombieIsStillSomebodys) {
  proc_.put({.pid = 7, .state = 'Z', .cmdline = ""});
  const auto facts = reader_.read(7);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->uid, 1000U);
  EXPECT_FALSE(facts->arguments);
}

TEST_F(ProcessReaderTest, AMissingControlGroupLeavesTheRest) {
  proc_.put({.pid = 7});
  std::filesystem::remove(proc_.at(7) + "/cgroup");
  const auto facts = reader_.read(7);
  ASSERT_TRUE(facts);
  EXPECT_FALSE(facts->cgroup);
  EXPECT_EQ(facts->command, "python3");
}

// Reads as a user from whom the process is hidden; nothing is hidden from root.
TEST_F(ProcessReaderTest, ReadingHiddenProcessIsDenied) {
  proc_.put({.pid = 7});
  ASSERT_EQ(::chmod(proc_.root().c_str(), 0755), 0);
  ASSERT_EQ(::chmod((proc_.at(7) + "/stat").c_str(), 0), 0);
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(2);
    const auto facts = reader_.read(7);
    ::_exit(!facts && facts.error().code == Errc::denied ? 0 : 1);
  }
  int status = -1;
  ::waitpid(stranger, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(ProcessReaderTest, NonsenseIsAnErrorAndNoFigure) {
  for (const std::string stat :
       {"", "7", "7 (x", "7 (x)", "7 (x) ", "7 (x) S 1 2 3", "7 )x( S",
        "7 (x) S 1 1 1 0 -1 0 9 0 0 0 0 0 0 0 20 0 1 0 18446744073709551615 3",
        "7 (x) S 1 1 1 0 -1 0 9 0 0 0 0 0 0 0 20 0 1 0 99999999999999999999999 3"}) {
    proc_.put({.pid = 7});
    ProcTree::write(proc_.at(7) + "/stat", stat);
    EXPECT_EQ(reader_.read(7).error().code, Errc::invalid) << stat;
  }
  for (const std::string status : {"", "Uid:\t1\t1", "\nUid:\t", "\nUid:\tx\t1", "\nUid:\t1 1"}) {
    proc_.put({.pid = 7});
    ProcTree::write(proc_.at(7) + "/status", status);
    EXPECT_EQ(reader_.read(7).error().code, Errc::invalid) << status;
  }
}

TEST_F(ProcessReaderTest, HostileArgumentsAreBoundedAndValid) {
  std::string bytes = "\x1b[2J\xFF\xC3";
  bytes += '\0';
  bytes += std::string(std::size_t{10} * 1024 * 1024, 'x');
  proc_.put({.pid = 7, .command = "\xF0\x9F\xFF", .cmdline = bytes});
  const auto facts = reader_.read(7);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->command, "\uFFFD\uFFFD\uFFFD");
  ASSERT_EQ(facts->arguments->size(), 2U);
  EXPECT_EQ(facts->arguments->front(), "\x1b[2J\uFFFD\uFFFD");
  EXPECT_LE(facts->arguments->back().size(), kMaxArgumentBytes + 3);
  EXPECT_TRUE(facts->arguments->back().ends_with("\u2026"));
}

TEST(Arguments, EmptyArgumentsCountAndEndMayBeMissing) {
  EXPECT_THAT(arguments_of(std::string_view("a\0\0b\0", 5), false), ElementsAre("a", "", "b"));
  EXPECT_THAT(arguments_of("a title", false), ElementsAre("a title"));
  EXPECT_THAT(arguments_of(std::string_view("\0", 1), false), ElementsAre(""));
  EXPECT_THAT(arguments_of("", false), IsEmpty());
}

TEST(PidNamespace, OnlyInitialNamespaceHasDriverNumbers) {
  EXPECT_TRUE(is_initial_pid_namespace("pid:[4026531836]"));
  EXPECT_FALSE(is_initial_pid_namespace("pid:[4026532836]"));
  EXPECT_FALSE(is_initial_pid_namespace(""));
}

// A user who names another /proc is trusted to know which PIDs it shows.
TEST(PidNamespace, ExplicitProcPathIsAccepted) {
  EXPECT_TRUE(check_pid_namespace("/host/proc"));
}

}  // namespace
}  // namespace gpuyard::processes
