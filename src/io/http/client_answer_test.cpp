// The client with answers that arrive in pieces or are cut off.
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "io/http/client.h"
#include "io/http/messages_for_tests.h"
#include "io/http/raw_client_for_tests.h"
#include "io/http/tls_server_for_tests.h"

namespace gpuyard::http {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr std::size_t kMaxBodyBytes = 99;

// A server that gives every client the same answer, and then hangs up or does nothing more.
class CannedServer {
 public:
  enum class AfterAnswer { hangs_up, stays };

  explicit CannedServer(std::string answer, AfterAnswer then = AfterAnswer::hangs_up)
      : answer_(std::move(answer)), then_(then), thread_([this] { serve(); }) {}
  ~CannedServer() {
    stop_ = true;
    thread_.join();
  }
  CannedServer(const CannedServer&) = delete;
  CannedServer& operator=(const CannedServer&) = delete;

  Origin origin() const { return {false, "127.0.0.1", listener_.port}; }

 private:
  void serve() {
    while (!stop_) {
      pollfd ready{listener_.socket.get(), POLLIN, 0};
      if (::poll(&ready, 1, 5) != 1) continue;
      UniqueFd client(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char request[4096];
      ::recv(client.get(), request, sizeof request, 0);
      ::send(client.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL);
      if (then_ == AfterAnswer::stays) held_.push_back(std::move(client));
    }
  }

  std::string answer_;
  AfterAnswer then_;
  LocalListener listener_;
  std::atomic<bool> stop_ = false;
  std::vector<UniqueFd> held_;
  std::thread thread_;
};

constexpr std::string_view kHints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Fetch, InformationalResponsesAreSkipped) {
  for (const int times : {1, 8}) {
    const CannedServer server(repeated(kHints, times) + kBareHello);
    const auto response = fetch(server.origin(), ClientRequest(), kTestTimeout);
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->header("link"), "");
    EXPECT_EQ(response->body, "hello");
  }
}

TEST(Fetch, TooManyInterimResponsesFail) {
  const CannedServer server(repeated(kHints, 9) + kBareHello);
  const auto response = fetch(server.origin(), ClientRequest(), kTestTimeout);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::unavailable);
}

TEST(Fetch, CallsAnAnswerThatNeverFollowsUnavailable) {
  const CannedServer server{std::string(kHints)};
  const auto response = fetch(server.origin(), ClientRequest(), kTestTimeout);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::unavailable);
}

TEST(Fetch, TakesAnotherProtocolForAnAnswer) {
  const CannedServer server("HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\n\r\n");
  const auto response = fetch(server.origin(), ClientRequest(), kTestTimeout);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 101);
}

TEST(FetchStatus, TruncatedResponseStillReturnsStatus) {
  for (const auto& [answer, body] :
       {std::pair{"HTTP/1.1 202 Accepted\r\nContent-Length: 10\r\n\r\nhalf", "half"},
        std::pair{"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\nhalf", ""},
        std::pair{"HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\nlong", ""},
        std::pair{"HTTP/1.1 103 A\r\n\r\nHTTP/1.1 202 B\r\nContent-Length: 9\r\n\r\nh", "h"}}) {
    const CannedServer server(answer);
    const auto response =
        fetch_status(server.origin(), ClientRequest(), kTestTimeout, kMaxBodyBytes);
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->status, 202) << answer;
    EXPECT_EQ(response->body, body) << answer;
    EXPECT_FALSE(fetch(server.origin(), ClientRequest(), kTestTimeout, kMaxBodyBytes)) << answer;
  }
}

TEST(FetchStatus, TlsResponseWithoutCloseNotifyReturnsStatus) {
  const TestCertificate certificate("IP:127.0.0.1");
  const ScratchDirectory directory;
  certificate.write_to(directory.in("file"));
  BlockingTlsServer server(certificate, {"HTTP/1.1 200 OK\r\n\r\nhalf", false});
  const Origin origin{true, "127.0.0.1", server.port(), directory.in("file")};
  const auto response = fetch_status(origin, ClientRequest(), kTestTimeout, kMaxBodyBytes);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 200);
}

TEST(FetchStatus, UnfinishedResponseStillReturnsStatus) {
  const CannedServer server("HTTP/1.1 200 OK\r\n\r\nand", CannedServer::AfterAnswer::stays);
  // Some deadline is long enough for the head, however slow this machine is.
  Duration timeout = milliseconds(20);
  auto response = fetch_status(server.origin(), ClientRequest(), timeout, kMaxBodyBytes);
  for (; !response && timeout < kTestTimeout; timeout *= 2) {
    EXPECT_EQ(response.error().code, Errc::timed_out);
    response = fetch_status(server.origin(), ClientRequest(), timeout, kMaxBodyBytes);
  }
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 200);
}

TEST(FetchStatus, NeedsAWholeHead) {
  const CannedServer server("HTTP/1.1 200 OK\r\nContent-Len");
  const auto response = fetch_status(server.origin(), ClientRequest(), kTestTimeout, kMaxBodyBytes);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::unavailable);
  EXPECT_THAT(response.error().message, HasSubstr("127.0.0.1"));
}

}  // namespace
}  // namespace gpuyard::http
