#include "base/helper_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard {
namespace {

// A listening socket with a file.
class HelperSocketTest : public ::testing::Test {
 protected:
  HelperSocketTest() : path_(scratch_.in("s")) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::strncpy(name.sun_path, path_.c_str(), sizeof name.sun_path - 1);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
  }

  const ScratchDirectory scratch_;
  const std::string path_;
  const UniqueFd listener_{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
};

TEST_F(HelperSocketTest, OwnerOfTheFileIsServed) {
  const auto client = connect_to_helper(path_);
  ASSERT_TRUE(client) << client.error().text();
  const UniqueFd accepted(::accept(listener_.get(), nullptr, nullptr));
  EXPECT_TRUE(check_daemon(accepted.get()));
}

TEST_F(HelperSocketTest, SocketWithoutItsFileIsRefused) {
  const auto client = connect_to_helper(path_);
  const UniqueFd accepted(::accept(listener_.get(), nullptr, nullptr));
  ::unlink(path_.c_str());
  EXPECT_FALSE(check_daemon(accepted.get())) << "its owner is unknown";
}

TEST_F(HelperSocketTest, ConnectingFailsWithThePath) {
  EXPECT_EQ(connect_to_helper(std::string(200, 'x')).error().code, Errc::invalid);
  EXPECT_EQ(connect_to_helper("").error().code, Errc::invalid);
  const std::string other = scratch_.in("other");
  EXPECT_NE(connect_to_helper(other).error().text().find(other), std::string::npos);
}

// Both ends are this process's, which is not its own parent.
TEST(CheckDaemon, PairNotFromParentIsDenied) {
  const auto pair = make_socket_pair();
  ASSERT_TRUE(pair);
  EXPECT_EQ(check_daemon(pair->theirs.get()).error().code, Errc::denied);
}

TEST(CheckDaemon, InternetSocketIsDenied) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(check_daemon(socket.get()));
}

}  // namespace
}  // namespace gpuyard
