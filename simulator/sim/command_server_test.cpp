// A world server and clients that break the protocol.
#include "sim/command_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "sim/world_client_for_tests.h"

namespace gpuyard::sim {
namespace {

using namespace std::chrono_literals;

using CommandServerTest = WorldClientTest;

// A foreign client on the world server's socket.
class Stranger {
 public:
  explicit Stranger(const std::string& directory)
      : fd_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const auto address = WorldSocketAddress::create(directory);
    connected_ = ::connect(fd_.get(), address->get(), address->size()) == 0;
    const timeval timeout{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  }
  bool connected() const { return connected_; }

  // Returns the size of the answer in bytes; 0 if the world server closed the connection.
  ssize_t say(const void* bytes, std::size_t size) {
    if (::send(fd_.get(), bytes, size, MSG_NOSIGNAL) < 0) return 0;
    return hear();
  }
  ssize_t hear() {
    const ssize_t got = ::recv(fd_.get(), &reply, sizeof reply, 0);
    return got < 0 && errno == ECONNRESET ? 0 : got;
  }

  Reply reply;

 private:
  UniqueFd fd_;
  bool connected_ = false;
};

TEST_F(CommandServerTest, BadCommandsAreAnsweredAndOversizeOnesDropped) {
  const auto world = start();
  const std::array<char, sizeof(Command) + 1> oversize{};
  Stranger stranger(directory());
  ASSERT_TRUE(stranger.connected());
  EXPECT_EQ(stranger.say("hello", 5), ssize_t{sizeof(Reply)});
  EXPECT_EQ(stranger.reply.failed, 1U);
  Command command;
  command.version = 77;
  EXPECT_EQ(stranger.say(&command, sizeof command), ssize_t{sizeof(Reply)});
  EXPECT_STREQ(stranger.reply.message, "unknown command version");
  command.version = kCommandVersion;
  command.verb = static_cast<Verb>(77);
  EXPECT_EQ(stranger.say(&command, sizeof command), ssize_t{sizeof(Reply)});
  EXPECT_STREQ(stranger.reply.message, "unknown command");
  EXPECT_EQ(stranger.say(oversize.data(), oversize.size()), 0);
  EXPECT_TRUE(world_status(directory()));
}

TEST_F(CommandServerTest, ExcessClientIsRefusedAndIdleClientsExpire) {
  const auto world = start();
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (std::size_t i = 0; i < kMaxClients; ++i) {
    strangers.push_back(std::make_unique<Stranger>(directory()));
    ASSERT_TRUE(strangers.back()->connected());
  }
  Stranger late(directory());
  EXPECT_EQ(late.hear(), 0);
  EXPECT_EQ(set_load(directory(), 0, {}).error().code, Errc::unavailable);
  EXPECT_TRUE(
      happens_within(kClientTimeout + 1s, [&] { return set_load(directory(), 0, {}).ok(); }));
  EXPECT_EQ(strangers[0]->hear(), 0);
}

}  // namespace
}  // namespace gpuyard::sim
