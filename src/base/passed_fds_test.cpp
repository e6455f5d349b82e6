#include "base/passed_fds.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

class PassedFdsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    a_.reset(ends[0]);
    b_.reset(ends[1]);
  }

  UniqueFd a_;
  UniqueFd b_;
  std::array<char, 8> room_{};
};

TEST_F(PassedFdsTest, ArriveWithDataAndCloseOnExec) {
  const std::vector<int> fds = {STDIN_FILENO, STDERR_FILENO};
  ASSERT_EQ(send_with_fds(a_.get(), "text", fds), 4);
  const auto received = receive_with_fds(b_.get(), room_);
  EXPECT_EQ(received.size, 4);
  EXPECT_FALSE(received.truncated);
  ASSERT_EQ(received.fds.size(), 2U);
  EXPECT_EQ(::fcntl(received.fds[1].get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(PassedFdsTest, OversizedDatagramIsMarkedAsCut) {
  ASSERT_EQ(send_with_fds(a_.get(), "longer than the room", {}), 20);
  const auto received = receive_with_fds(b_.get(), room_);
  EXPECT_EQ(received.size, 20);
  EXPECT_TRUE(received.truncated);
}

TEST_F(PassedFdsTest, MoreThanMaxAreNotSent) {
  const std::vector<int> fds(kMaxPassedFds + 1, STDERR_FILENO);
  EXPECT_EQ(send_with_fds(a_.get(), "text", fds), -1);
  EXPECT_EQ(errno, ETOOMANYREFS);
}

TEST_F(PassedFdsTest, ClosedPeerYieldsEndOfFile) {
  a_.reset();
  EXPECT_EQ(receive_with_fds(b_.get(), room_).size, 0);
  EXPECT_EQ(send_with_fds(b_.get(), "text", {}), -1);
  EXPECT_EQ(errno, EPIPE);
}

}  // namespace
}  // namespace gpuyard
