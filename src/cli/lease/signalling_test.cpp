#include "cli/lease/signalling.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "core/processes/identify.h"

namespace gpuyard::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A child that waits, in a list as a daemon makes it.
class SendingSignals : public ::testing::Test {
 protected:
  SendingSignals() : child_(::fork()) {
    if (child_ == 0) {
      ::execl("/usr/bin/env", "env", "-i", "GPUYARD_LEASE=3f2a", "sleep", "600", nullptr);
      ::_exit(127);
    }
    while (!has_begun()) ::usleep(1000);
    const auto numbering = processes::own_pid_namespace();
    left_ = {"3f2a", "TERM", numbering.boot_id, numbering.pid_namespace, {}, 0, ""};
    const auto who = processes::identify_process(static_cast<std::uint32_t>(child_));
    EXPECT_TRUE(who);
    left_.processes.push_back(
        {who->process.pid, to_milliseconds(who->process.started.time_since_epoch()), "why"});
  }
  ~SendingSignals() override {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  bool has_begun() const {
    const auto environment = read_file(fmt::format("/proc/{}/environ", child_), 4096);
    return environment && environment->starts_with("GPUYARD_LEASE=3f2a");
  }
  bool lives() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
  }
  int signal_of_end() const {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOWAIT);
    return info.si_status;
  }
  Error error_over(const http::Endpoint& daemon) const {
    const auto sent = send_remaining_signals(daemon, left_, "3f2a");
    EXPECT_FALSE(sent);
    return sent ? Error{} : sent.error();
  }

  static inline const auto kSocket = http::Endpoint::unix_socket("/run/gpuyard/gpuyard.sock");
  pid_t child_;
  protocol::UnsignalledProcesses left_;
};

TEST_F(SendingSignals, ReachesTheProcess) {
  EXPECT_TRUE(send_remaining_signals(kSocket, left_, "3f2a"));
  EXPECT_EQ(signal_of_end(), SIGTERM);
}

TEST_F(SendingSignals, SparesAnotherProcessWithTheNumber) {
  for (const std::int64_t off :
       {std::int64_t{-10}, std::int64_t{10}, INT64_MAX / 2, INT64_MIN / 2}) {
    auto other = left_;
    other.processes[0].started_after_boot_ms += off;
    const auto rest = send_signals(other);
    ASSERT_TRUE(rest);
    EXPECT_THAT(*rest, IsEmpty()) << "it has ended";
  }
  EXPECT_TRUE(lives());
}

TEST_F(SendingSignals, SparesAProcessOfAnotherMachine) {
  left_.boot_id = "00000000-0000-0000-0000-000000000000";
  const Error error = error_over(kSocket);
  EXPECT_EQ(error.code, Errc::denied);
  EXPECT_THAT(error.cause, HasSubstr("another machine"));
  EXPECT_THAT(error.hint, HasSubstr("gpuyard lease release 3f2a --signal TERM"));
  EXPECT_TRUE(lives());
}

TEST_F(SendingSignals, SparesAProcessOfAnotherPidNamespace) {
  left_.pid_namespace = "pid:[1]";
  EXPECT_THAT(error_over(kSocket).cause, HasSubstr("another PID namespace"));
  left_.pid_namespace = "";
  EXPECT_EQ(error_over(kSocket).code, Errc::denied) << "an unknown one";
  EXPECT_TRUE(lives());
}

TEST_F(SendingSignals, SparesAProcessThatNamesAnotherLease) {
  left_.lease = "4711";
  EXPECT_THAT(error_over(kSocket).cause, HasSubstr("does not name the lease"));
  left_.lease = "";
  EXPECT_THAT(error_over(kSocket).cause, HasSubstr("does not name the lease"));
  EXPECT_TRUE(lives());
}

TEST_F(SendingSignals, OverTheNetworkSparesProcessesOfThisMachine) {
  const Error error = error_over(http::Endpoint::tcp("127.0.0.1", 9410));
  EXPECT_EQ(error.code, Errc::denied);
  EXPECT_THAT(error.cause, HasSubstr("over the network"));
  EXPECT_TRUE(lives());
}

TEST_F(SendingSignals, UnknownSignalIsInvalid) {
  left_.signal = "STOP";
  EXPECT_EQ(send_signals(left_).error().code, Errc::invalid);
  EXPECT_TRUE(lives());
}

TEST_F(SendingSignals, UnlistedProcessesAreAnErrorWithAdvice) {
  left_.processes.clear();
  left_.why = "the processes could not be checked in time";
  const Error error = error_over(kSocket);
  EXPECT_EQ(error.code, Errc::timed_out);
  EXPECT_EQ(error.cause, left_.why);
  EXPECT_EQ(error.hint, "gpuyard lease release 3f2a --signal TERM");
}

TEST_F(SendingSignals, LeftOutProcessesAreAnError) {
  left_.left_out = 7;
  EXPECT_THAT(error_over(kSocket).message, HasSubstr("7 more processes"));
  EXPECT_EQ(signal_of_end(), SIGTERM) << "the listed one got it";
}

TEST_F(SendingSignals, KernelsRefusalNamesTheProcess) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    constexpr uid_t kNobody = 65534;
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(2);
    const auto sent = send_remaining_signals(kSocket, left_, "3f2a");
    const bool good = !sent && sent.error().code == Errc::denied &&
                      sent.error().message.starts_with("1 of 1 processes of lease 3f2a") &&
                      sent.error().cause.ends_with("runs as another user") &&
                      sent.error().hint == "sudo gpuyard lease release 3f2a --signal TERM";
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ::waitpid(stranger, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(lives());
}

}  // namespace
}  // namespace gpuyard::cli
