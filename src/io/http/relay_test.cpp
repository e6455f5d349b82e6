// The far end of a tunnel's connection, between a client's socket and a server of the test's own.
#include "io/http/relay.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <future>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "io/http/listening_socket.h"
#include "io/http/raw_client_for_tests.h"
#include "io/http/tunnel.h"

namespace gpuyard::http {
namespace {

using std::chrono::milliseconds;

constexpr Duration kShortTimeout = milliseconds(50);

// One end of a socket, read and written within the test's timeout.
class End {
 public:
  explicit End(UniqueFd fd) : fd_(std::move(fd)) {}

  void send(std::string_view text) {
    EXPECT_EQ(::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // Receives at least so many bytes, or all until the end.
  std::string receive(std::size_t bytes) {
    std::string all;
    std::array<char, 65536> space;
    while (all.size() < bytes) {
      pollfd entry{fd_.get(), POLLIN, 0};
      if (::poll(&entry, 1, 20'000) != 1) break;
      const ssize_t got = ::recv(fd_.get(), space.data(), space.size(), 0);
      if (got <= 0) break;
      all.append(space.data(), static_cast<std::size_t>(got));
    }
    return all;
  }
  bool ends() { return receive(1).empty(); }
  void half_close() { ::shutdown(fd_.get(), SHUT_WR); }
  void close() { fd_.reset(); }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

class RelayTest : public testing::Test {
 protected:
  RelayTest() {
    auto made = listen_on_unix(directory_.in("a.sock"), 0600);
    EXPECT_TRUE(made);
    listener_ = *std::move(made);
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    client_ = End(UniqueFd(ends[0]));
    client_end_.reset(ends[1]);
  }
  ~RelayTest() override {
    client_.close();
    server_.close();
    if (thread_.joinable()) thread_.join();
  }

  void start(RelayLimits limits = {}) {
    thread_ = std::thread([this, limits] {
      result_ = relay(Endpoint::unix_socket(directory_.in("a.sock")), client_end_.get(),
                      client_end_.get(), limits);
      client_end_.reset();
      over_.set_value();
    });
    pollfd entry{listener_.socket.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 20'000), 1);
    server_ = End(UniqueFd(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    EXPECT_EQ(client_.receive(kGreeting.size()), kGreeting);
  }
  bool is_over() { return ended_.wait_for(kTestTimeout) == std::future_status::ready; }

  ScratchDirectory directory_;
  UnixListener listener_;
  End client_{UniqueFd()};
  End server_{UniqueFd()};
  UniqueFd client_end_;  // the client's other end, which the relay has
  Result<void> result_;
  std::promise<void> over_;
  std::future<void> ended_ = over_.get_future();
  std::thread thread_;
};

TEST_F(RelayTest, GreetsAndPassesBytesBothWays) {
  start();
  client_.send("question");
  EXPECT_EQ(server_.receive(8), "question");
  server_.send("answer");
  EXPECT_EQ(client_.receive(6), "answer");
}

TEST_F(RelayTest, ALargeAnswerToASlowReaderArrivesWhole) {
  start();
  const std::string large(2'000'000, 'x');
  std::thread sender([&] {
    server_.send(large);
    server_.close();
  });
  EXPECT_EQ(client_.receive(large.size()).size(), large.size());
  sender.join();
  EXPECT_TRUE(is_over());
}

TEST_F(RelayTest, EndsWithItsClientThoughTheServerIsSilent) {
  start();
  client_.close();
  EXPECT_TRUE(is_over());
  EXPECT_TRUE(server_.ends());
}

TEST_F(RelayTest, EndsWithTheServerOnceAllIsPassedOn) {
  start();
  server_.send("last words");
  server_.close();
  EXPECT_TRUE(is_over());
  EXPECT_EQ(client_.receive(100), "last words");
}

TEST_F(RelayTest, HalfClosedClientGetsLastReply) {
  start({.drain_timeout = kTestTimeout});
  client_.send("question");
  client_.half_close();
  EXPECT_EQ(server_.receive(100), "question") << "and then the end";
  server_.send("answer");
  server_.close();
  EXPECT_EQ(client_.receive(100), "answer");
  EXPECT_TRUE(is_over());
}

TEST_F(RelayTest, HalfClosedClientTimesOut) {
  start({.drain_timeout = kShortTimeout});
  client_.half_close();
  EXPECT_TRUE(is_over());
}

TEST_F(RelayTest, NonReadingClientTimesOut) {
  // More than both sockets can hold: the client's end stays open, and nothing moves any more.
  start({.idle_timeout = kShortTimeout});
  std::thread sender([&] {
    const std::string large(4'000'000, 'x');
    const ssize_t sent = ::send(server_.fd(), large.data(), large.size(), MSG_NOSIGNAL);
    EXPECT_LT(sent, static_cast<ssize_t>(large.size()));
  });
  EXPECT_TRUE(is_over());
  sender.join();
}

TEST_F(RelayTest, ASilentConnectionEnds) {
  start({.idle_timeout = kShortTimeout});
  EXPECT_TRUE(is_over());
}

TEST_F(RelayTest, WithoutAServerThereIsNoGreeting) {
  const auto done =
      relay(Endpoint::unix_socket(directory_.in("b.sock")), client_end_.get(), client_end_.get());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::unavailable);
  client_end_.reset();
  EXPECT_TRUE(client_.ends());
}

TEST(RelayBetweenPipes, ClosedOutputReaderEndsCleanly) {
  const ScratchDirectory directory;
  auto listener = listen_on_unix(directory.in("a.sock"), 0600);
  ASSERT_TRUE(listener);
  std::array<int, 2> to{};
  std::array<int, 2> from{};
  ASSERT_EQ(::pipe(to.data()), 0);
  ASSERT_EQ(::pipe(from.data()), 0);
  const UniqueFd in(to[0]);
  const UniqueFd stays_open(to[1]);
  const UniqueFd out(from[1]);
  UniqueFd reader(from[0]);
  std::thread closer([&] {
    std::array<char, kGreeting.size()> greeting;
    EXPECT_EQ(::read(reader.get(), greeting.data(), greeting.size()),
              static_cast<ssize_t>(greeting.size()));
    reader.reset();
  });
  EXPECT_TRUE(relay(Endpoint::unix_socket(directory.in("a.sock")), in.get(), out.get()));
  closer.join();
}

}  // namespace
}  // namespace gpuyard::http
