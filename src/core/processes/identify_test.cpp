#include "core/processes/identify.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace gpuyard::processes {
namespace {

// A child process that only waits until it is ended.
class Child {
 public:
  Child() : pid_(::fork()) {
    while (pid_ == 0) ::pause();
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::uint32_t pid() const { return static_cast<std::uint32_t>(pid_); }
  int wait() {
    int status = -1;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }
  void kill() const { ::kill(pid_, SIGKILL); }
  void end() {
    if (pid_ < 0) return;
    kill();
    wait();
  }

 private:
  pid_t pid_;
};

TEST(Identify, RunningChildYieldsPidUidParentAndCommand) {
  const Child child;
  const auto who = identify_process(child.pid());
  ASSERT_TRUE(who) << who.error().message;
  EXPECT_EQ(who->process.pid, child.pid());
  EXPECT_EQ(who->uid, ::geteuid());
  EXPECT_EQ(who->parent, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(who->command, "core_test");
  EXPECT_LE(who->process.started, BootClock::now());
  EXPECT_GT(who->process.started, BootClock::now() - std::chrono::minutes(10));
}

TEST(Identify, ItsHandleSaysWhenItIsGone) {
  Child child;
  const auto who = identify_process(child.pid());
  ASSERT_TRUE(who);
  pollfd poll{who->handle.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&poll, 1, 0), 0);
  child.kill();
  EXPECT_EQ(::poll(&poll, 1, 10'000), 1);
}

TEST(Identify, ExitedOrInvalidPidIsNotFound) {
  Child child;
  const std::uint32_t pid = child.pid();
  child.end();
  EXPECT_EQ(identify_process(pid).error().code, Errc::not_found);
  EXPECT_EQ(identify_process(0).error().code, Errc::not_found);
  EXPECT_EQ(identify_process(UINT32_MAX).error().code, Errc::not_found);
  EXPECT_EQ(identify_process(4'194'305).error().code, Errc::not_found)
      << "no process has such a number";
}

TEST(Identify, ZombieIsNotFound) {
  const Child child;
  child.kill();
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, child.pid(), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(identify_process(child.pid()).error().code, Errc::not_found);
}

TEST(SendSignal, ReachesTheProcess) {
  Child child;
  const auto who = identify_process(child.pid());
  ASSERT_TRUE(who);
  EXPECT_TRUE(send_signal(who->process, SIGTERM));
  const int status = child.wait();
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST(SendSignal, DoesNotReachARefusedUser) {
  const Child child;
  const auto who = identify_process(child.pid());
  ASSERT_TRUE(who);
  const auto refused = [](std::uint32_t) { return false; };
  EXPECT_EQ(send_signal(who->process, SIGKILL, refused).error().code, Errc::denied);
  const auto own = [](std::uint32_t uid) { return uid == ::getuid(); };
  EXPECT_TRUE(send_signal(who->process, SIGKILL, own));
}

TEST(SendSignal, NeverReachesAnotherProcessWithTheNumber) {
  const Child child;
  auto who = identify_process(child.pid());
  ASSERT_TRUE(who);
  who->process.started -= std::chrono::milliseconds(10);
  EXPECT_EQ(send_signal(who->process, SIGKILL).error().code, Errc::not_found);
  EXPECT_EQ(::waitpid(static_cast<pid_t>(child.pid()), nullptr, WNOHANG), 0) << "it lives";
}

TEST(SendSignal, IsLeftToTheKernelWithoutAPredicate) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const Child child;
  const auto who = identify_process(child.pid());
  ASSERT_TRUE(who);
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    constexpr uid_t kNobody = 65534;
    const bool might = can_signal(0) && can_signal(kNobody) && can_signal(1000);
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(2);
    const bool may = can_signal(kNobody) && !can_signal(0) && !can_signal(1000);
    const bool refused = send_signal(who->process, SIGKILL).error().code == Errc::denied;
    ::_exit(might && may && refused ? 0 : 1);
  }
  int status = -1;
  ::waitpid(stranger, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(::waitpid(static_cast<pid_t>(child.pid()), nullptr, WNOHANG), 0) << "it lives";
}

TEST(PidNamespaceIdTest, UnknownNamespaceMatchesNone) {
  const PidNamespaceId own = own_pid_namespace();
  EXPECT_TRUE(own.matches(own));
  EXPECT_TRUE(own.pid_namespace.starts_with("pid:[")) << own.pid_namespace;
  EXPECT_FALSE(own.matches({own.boot_id, "pid:[1]"}));
  EXPECT_FALSE(own.matches({"another", own.pid_namespace}));
  EXPECT_FALSE((PidNamespaceId{"", "pid:[1]"}.matches({"", "pid:[1]"})));
  EXPECT_FALSE((PidNamespaceId{"boot", ""}.matches({"boot", ""})));
}

TEST(SendSignal, ExitedProcessIsNotFound) {
  Child child;
  const auto who = identify_process(child.pid());
  ASSERT_TRUE(who);
  child.end();
  EXPECT_EQ(send_signal(who->process, SIGTERM).error().code, Errc::not_found);
}

}  // namespace
}  // namespace gpuyard::processes
