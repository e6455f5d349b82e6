#include "base/command_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/poll_loop_for_tests.h"
#include "base/unique_fd.h"

namespace gpuyard {
namespace {

using namespace std::chrono_literals;
using End = CommandOutcome::End;

// Far longer than any step here takes; only a failing test waits this long.
constexpr Duration kTestTimeout = 20s;

CommandOptions shell(const std::string& script) {
  return {.argv = {"/bin/sh", "-c", script}};
}

class CommandRunTest : public testing::Test {
 protected:
  CommandOutcome outcome_of(const CommandOptions& options) {
    std::optional<CommandOutcome> outcome;
    const CommandRun run(loop_, options, [&](const CommandOutcome& ended) { outcome = ended; });
    EXPECT_FALSE(outcome) << "told inside the constructor";
    EXPECT_TRUE(loop_.run_until([&] { return outcome.has_value(); }, kTestTimeout));
    return outcome.value_or(CommandOutcome{});
  }
  // Waits until a script has written `count` pids to the file, one per line, and returns them.
  std::vector<pid_t> pids_in(const std::string& path, std::size_t count) {
    std::vector<pid_t> pids;
    EXPECT_TRUE(loop_.run_until(
        [&] {
          pids.clear();
          std::ifstream file(path);
          for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
          return pids.size() >= count;
        },
        kTestTimeout));
    return pids;
  }
  // Waits until the process is dead, whether or not its parent has reaped it.
  bool ends(pid_t pid) {
    const auto dead = [pid] {
      std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
      std::string text((std::istreambuf_iterator<char>(file)), {});
      const auto end = text.rfind(')');
      return end == text.npos || text.at(end + 2) == 'Z';
    };
    return loop_.run_until(dead, kTestTimeout);
  }
  std::string scratch() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string path =
        testing::TempDir() + "gpuyard-command-" + std::to_string(::getpid()) + "-" + test->name();
    std::filesystem::remove(path);
    return path;
  }

  PollLoop loop_;
  Subscription timer_;
};

TEST_F(CommandRunTest, SuccessReportsOutputAndExitStatus) {
  const auto outcome = outcome_of(shell("echo out; echo err >&2; cat; exit 0"));
  EXPECT_TRUE(outcome.succeeded());
  EXPECT_EQ(outcome.output, "out\nerr\n");  // and cat read an empty stdin
  EXPECT_FALSE(outcome.output_truncated);
  EXPECT_EQ(outcome.text(), "exited with status 0");
  EXPECT_GT(outcome.duration, Duration::zero());
}

TEST_F(CommandRunTest, FailureHasItsStatus) {
  const auto outcome = outcome_of(shell("echo no >&2; exit 7"));
  EXPECT_FALSE(outcome.succeeded());
  EXPECT_EQ(outcome.end, End::exited);
  EXPECT_EQ(outcome.number, 7);
  EXPECT_EQ(outcome.output, "no\n");
}

TEST_F(CommandRunTest, ASignalHasItsNumber) {
  const auto outcome = outcome_of(shell("kill -SEGV $$"));
  EXPECT_FALSE(outcome.succeeded());
  EXPECT_EQ(outcome.end, End::signalled);
  EXPECT_EQ(outcome.text(), "was killed by signal 11");
}

TEST_F(CommandRunTest, MissingProgramIsNotStarted) {
  const auto outcome = outcome_of({.argv = {"/nowhere/reset-gpu", "0"}});
  EXPECT_EQ(outcome.end, End::not_started);
  EXPECT_FALSE(outcome.succeeded());
  EXPECT_EQ(outcome.text(),
            "could not be started: starting /nowhere/reset-gpu: No such file or directory");
  EXPECT_EQ(outcome_of({.argv = {"no-such-program-of-any-kind"}}).end, End::not_started);
  EXPECT_EQ(outcome_of({.argv = {}}).end, End::not_started);
}

// Behaves like a disk that does not answer: opening the file waits until the lease is given back.
TEST_F(CommandRunTest, HungProgramFileTimesOutWithoutBlockingLoop) {
  const std::string path = scratch();
  std::ofstream(path) << "#!/bin/sh\nsleep 1000\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ::fcntl(file.get(), F_SETSIG, SIGURG);  // which is ignored
  ASSERT_EQ(::fcntl(file.get(), F_SETLEASE, F_WRLCK), 0);
  CommandOptions options{.argv = {path}};
  options.start_timeout = 200ms;
  TimePoint last = loop_.now();
  Duration longest_turn{};
  std::function<void()> tick = [&] {
    longest_turn = std::max(longest_turn, loop_.now() - std::exchange(last, loop_.now()));
    timer_ = loop_.call_after(10ms, tick);
  };
  tick();
  const auto outcome = outcome_of(options);
  EXPECT_EQ(outcome.end, End::not_started);
  EXPECT_NE(outcome.why.find("file system"), std::string::npos) << outcome.why;
  EXPECT_LT(longest_turn, 150ms);
  ASSERT_EQ(::fcntl(file.get(), F_SETLEASE, F_UNLCK), 0);
  // The thread kills and reaps the process that starts after all.
  EXPECT_TRUE(loop_.run_until([] { return ::waitpid(-1, nullptr, WNOHANG) < 0; }, kTestTimeout));
}

TEST_F(CommandRunTest, ArgumentsArePassedWithoutShellExpansion) {
  const auto outcome = outcome_of({.argv = {"printf", "%s|", "a b", "$HOME", "; exit 3", "*", ""}});
  EXPECT_TRUE(outcome.succeeded());
  EXPECT_EQ(outcome.output, "a b|$HOME|; exit 3|*||");
}

TEST_F(CommandRunTest, OptionsExtendAndOverrideInheritedEnvironment) {
  ::setenv("GPUYARD_TEST_OURS", "ours", 1);
  ::setenv("GPUYARD_TEST_BOTH", "ours", 1);
  auto options = shell("echo $GPUYARD_TEST_OURS $GPUYARD_TEST_BOTH $GPUYARD_TEST_NEW");
  options.environment = {{"GPUYARD_TEST_BOTH", "theirs"}, {"GPUYARD_TEST_NEW", "a=b c"}};
  EXPECT_EQ(outcome_of(options).output, "ours theirs a=b c\n");
  ::unsetenv("GPUYARD_TEST_OURS");
  ::unsetenv("GPUYARD_TEST_BOTH");
}

TEST_F(CommandRunTest, DeadlineSendsSigterm) {
  auto options = shell("trap 'echo bye; exit 0' TERM; echo hi; while :; do sleep 0.01; done");
  options.timeout = 200ms;
  const auto outcome = outcome_of(options);
  EXPECT_EQ(outcome.end, End::timed_out);
  EXPECT_FALSE(outcome.succeeded());
  EXPECT_TRUE(outcome.output.starts_with("hi\n")) << outcome.output;
  EXPECT_TRUE(outcome.output.ends_with("bye\n")) << outcome.output;
  EXPECT_LT(outcome.duration, 2s);  // the grace was not needed
}

TEST_F(CommandRunTest, ProcessTreeIgnoringSigtermIsKilledAfterGrace) {
  const std::string path = scratch();
  auto options = shell("trap '' TERM; sleep 600 & echo $! >> " + path +
                       "; (trap '' TERM; sleep 600; sleep 600) & echo $! >> " + path +
                       "; echo $$ >> " + path + "; wait; wait; sleep 600");
  options.timeout = 200ms;
  options.grace_period = 100ms;
  const auto outcome = outcome_of(options);
  EXPECT_EQ(outcome.end, End::timed_out);
  EXPECT_GE(outcome.duration, 300ms);
  for (const pid_t pid : pids_in(path, 3)) EXPECT_TRUE(ends(pid)) << pid;
}

TEST_F(CommandRunTest, BackgroundChildrenAreKilledAfterExit) {
  const std::string path = scratch();
  const auto outcome = outcome_of(shell("sleep 600 & echo $! > " + path + "; echo done"));
  EXPECT_TRUE(outcome.succeeded());
  EXPECT_EQ(outcome.output, "done\n");  // although another process still has its stdout
  EXPECT_TRUE(ends(pids_in(path, 1).front()));
}

TEST_F(CommandRunTest, FloodKeepsEndOfOutput) {
  const auto outcome = outcome_of(
      shell("i=0; while [ $i -lt 40000 ]; do echo line $i; i=$((i+1)); done; echo last"));
  EXPECT_TRUE(outcome.succeeded());
  EXPECT_TRUE(outcome.output_truncated);
  EXPECT_EQ(outcome.output.size(), kMaxCommandOutput);
  EXPECT_TRUE(outcome.output.ends_with("line 39999\nlast\n"));
}

TEST_F(CommandRunTest, EndlessOutputTimesOutWithoutBlockingLoop) {
  CommandOptions options{.argv = {"yes"}, .timeout = 300ms};
  int turns = 0;
  std::function<void()> count = [&] {
    ++turns;
    loop_.post([&] { timer_ = loop_.call_after(5ms, count); });
  };
  timer_ = loop_.call_after(5ms, count);
  const auto outcome = outcome_of(options);
  timer_.reset();
  EXPECT_EQ(outcome.end, End::timed_out);
  EXPECT_EQ(outcome.output.size(), kMaxCommandOutput);
  EXPECT_GT(turns, 10);
}

TEST_F(CommandRunTest, ClosedOutputStillWaitsForExit) {
  const auto outcome = outcome_of(shell("echo first; exec >&- 2>&-; sleep 0.1; exit 5"));
  EXPECT_EQ(outcome.number, 5);
  EXPECT_EQ(outcome.output, "first\n");
}

TEST_F(CommandRunTest, DestructionKillsProcessesWithoutCallback) {
  const std::string path = scratch();
  bool ended = false;
  std::optional<CommandRun> run(
      std::in_place, loop_,
      shell("sleep 600 & echo $! >> " + path + "; echo $$ >> " + path + "; wait"),
      [&](const CommandOutcome&) { ended = true; });
  const auto pids = pids_in(path, 2);
  run.reset();
  for (const pid_t pid : pids) EXPECT_TRUE(ends(pid)) << pid;
  // The loop reaps it, so that nothing of it remains.
  EXPECT_TRUE(
      loop_.run_until([&] { return ::kill(pids.back(), 0) != 0 && errno == ESRCH; }, kTestTimeout));
  EXPECT_FALSE(ended);
}

TEST_F(CommandRunTest, DestructionInsideCallbackIsSafe) {
  std::optional<CommandRun> run;
  bool ended = false;
  run.emplace(loop_, shell("exit 0"), [&](const CommandOutcome&) {
    run.reset();
    ended = true;
  });
  EXPECT_TRUE(loop_.run_until([&] { return ended; }, kTestTimeout));
  run.emplace(loop_, CommandOptions{.argv = {"/nowhere"}}, [&](const CommandOutcome&) {
    run.reset();
    ended = false;
  });
  EXPECT_TRUE(loop_.run_until([&] { return !ended; }, kTestTimeout));
}

TEST_F(CommandRunTest, ConcurrentRunsHaveOwnOutcomes) {
  constexpr int kRunCount = 50;
  std::vector<CommandRun> runs;
  std::vector<std::optional<CommandOutcome>> outcomes(kRunCount);
  int ended = 0;
  for (int i = 0; i < kRunCount; ++i) {
    const auto number = std::to_string(i);
    runs.emplace_back(loop_, shell(fmt::format("echo I am {0}; exit {0}", number)),
                      [&, i](const CommandOutcome& outcome) {
                        outcomes[static_cast<std::size_t>(i)] = outcome;
                        ++ended;
                      });
  }
  ASSERT_TRUE(loop_.run_until([&] { return ended == kRunCount; }, kTestTimeout));
  for (int i = 0; i < kRunCount; ++i) {
    const auto& outcome = *outcomes[static_cast<std::size_t>(i)];
    EXPECT_EQ(outcome.number, i);
    EXPECT_EQ(outcome.output, "I am " + std::to_string(i) + "\n");
  }
}

TEST_F(CommandRunTest, FinishedRunsLeaveNoDescriptorsOrZombies) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  for (int i = 0; i < 20; ++i) {
    outcome_of(shell("exit 1"));
    outcome_of({.argv = {"/nowhere"}});
  }
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace gpuyard
