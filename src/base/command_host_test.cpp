#include "base/command_host.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/scratch_directory_for_tests.h"

namespace gpuyard {
namespace {

class CommandHost : public testing::Test {
 protected:
  CommandHost() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      run_command_host(ends[1]);
    }
    ::close(ends[1]);
    set_command_host(UniqueFd(ends[0]), pid_);
  }
  ~CommandHost() override {
    set_command_host(UniqueFd(), 0);  // closes the socket, so the host ends
    ::waitpid(pid_, nullptr, 0);
  }
  CommandHost(const CommandHost&) = delete;
  CommandHost& operator=(const CommandHost&) = delete;

  // A shell's script, whose output goes to out().
  SpawnOptions shell(const std::string& script) {
    output_ = UniqueFd(::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    return {.program = "/bin/sh", .arguments = {"-c", script}, .output = output_.get()};
  }
  std::string out() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The exit code of our child; -1 if it is not our child, or was killed.
  static int end_of(const Result<pid_t>& child) {
    if (!child) return -1;
    int status = 0;
    if (::waitpid(*child, &status, 0) != *child || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
  }

  pid_t pid_ = 0;
  const ScratchDirectory directory_;
  const std::string path_ = directory_.in("out");
  UniqueFd output_;
};

std::string words_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(CommandHost, StartsAChildOfThisProcess) {
  auto plan = shell("echo $PPID $0 $1; echo errors >&2; exit 7");
  plan.arguments.insert(plan.arguments.end(), {"name", "one two"});
  EXPECT_EQ(end_of(spawn_unconfined(plan)), 7);
  EXPECT_EQ(out(), std::to_string(::getpid()) + " name one two\nerrors\n");
}

TEST_F(CommandHost, PassesEnvironmentAndDescriptors) {
  const UniqueFd given(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  auto plan = shell(R"(echo "$ONE $HOME"; for n in 0 3; do readlink /proc/$$/fd/$n; done)");
  plan.environment = {{"ONE", "1"}, {"HOME", "/at home"}};
  plan.passed_fds = {given.get()};
  EXPECT_EQ(end_of(spawn_unconfined(plan)), 0);
  EXPECT_EQ(out(), "1 /at home\n/dev/null\n/dev/zero\n");
}

TEST_F(CommandHost, SessionStartsOnlyIfRequested) {
  for (const bool own : {false, true}) {
    auto plan = shell("sleep 60");
    plan.new_session = own;
    const auto child = spawn_unconfined(plan);
    ASSERT_TRUE(child);
    EXPECT_EQ(::getsid(*child) == *child, own);
    ::kill(*child, SIGKILL);
    EXPECT_EQ(end_of(child), -1);
  }
}

TEST_F(CommandHost, ReportsWhyAProgramCannotBeStarted) {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {  // what earlier tests of this program have left
  }
  const SpawnOptions missing{.program = "/nowhere/x"};
  EXPECT_EQ(spawn_unconfined(missing).error(),
            (Error{Errc::not_found, "starting /nowhere/x: No such file or directory"}));
  const SpawnOptions closed{.program = "/bin/true", .passed_fds = {-1}};
  EXPECT_FALSE(spawn_unconfined(closed));
  auto long_one = shell("true");
  long_one.arguments.push_back(std::string(kMaxCommandBytes, 'x'));
  EXPECT_NE(spawn_unconfined(long_one).error().message.find("too long"), std::string::npos);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), 0) << "no child is left but the host";
  EXPECT_EQ(end_of(spawn_unconfined(shell("exit 3"))), 3) << "it still starts others";
}

TEST_F(CommandHost, ResetsTheSignalsThatItIgnores) {
  EXPECT_EQ(end_of(spawn_unconfined(shell("grep -E 'Sig(Ign|Blk)' /proc/self/status"))), 0);
  EXPECT_EQ(out(), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_F(CommandHost, SurvivesOthersDatagrams) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    ::close(ends[0]);
    run_command_host(ends[1]);
  }
  ::close(ends[1]);
  for (const std::string& bytes : {std::string("x"), std::string(12, '\0'), std::string(5000, '\0'),
                                   std::string(5000, '\xFF')}) {
    EXPECT_EQ(::send(ends[0], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  ::close(ends[0]);
  EXPECT_EQ(end_of(other), 0);
}

TEST_F(CommandHost, IsReplacedByThisProcessIfKilled) {
  const CapturedLog log;
  ::kill(pid_, SIGKILL);
  EXPECT_EQ(end_of(spawn_unconfined(shell("exit 5"))), 5);
  EXPECT_EQ(end_of(spawn_unconfined(shell("exit 6"))), 6);
  EXPECT_EQ(log.lines().size(), 1U);
}

TEST_F(CommandHost, IsReplacedByThisProcessIfStopped) {
  const CapturedLog log;
  ::kill(pid_, SIGSTOP);
  EXPECT_EQ(end_of(spawn_unconfined(shell("echo once"))), 0);
  EXPECT_EQ(out(), "once\n");
  EXPECT_EQ(words_of(pid_), "") << "it was ended, so it makes no second child";
  EXPECT_EQ(log.lines().size(), 1U);
}

}  // namespace
}  // namespace gpuyard
