// The client's way through a proxy: what the proxy is asked, and what it may read.
#include <poll.h>
#include <stdlib.h>

#include <array>
#include <mutex>
#include <optional>
#include <thread>

#include <gmock/gmock.h>

#include "base/scratch_directory_for_tests.h"
#include "io/http/client.h"
#include "io/http/messages_for_tests.h"
#include "io/http/raw_client_for_tests.h"
#include "io/http/tls_server_for_tests.h"

namespace gpuyard::http {
namespace {

using testing::HasSubstr;
using testing::Not;

// Takes one client. Answers its head with `answer`; if that is a success, and there is a server,
// passes on what either of them sends.
class FakeProxy {
 public:
  FakeProxy(std::string answer, std::optional<std::uint16_t> server)
      : answer_(std::move(answer)), server_(server), thread_([this] { serve(); }) {}
  ~FakeProxy() { thread_.join(); }
  FakeProxy(const FakeProxy&) = delete;
  FakeProxy& operator=(const FakeProxy&) = delete;

  Proxy proxy() const { return {"127.0.0.1", listener_.port}; }
  std::string head() {
    const std::lock_guard lock(mutex_);
    return head_;
  }

 private:
  void serve() {
    pollfd ready{listener_.socket.get(), POLLIN, 0};
    if (::poll(&ready, 1, kWaitTimeoutMs) <= 0) return;
    const UniqueFd client(::accept(listener_.socket.get(), nullptr, nullptr));
    std::string head;
    char byte = 0;
    while (!head.ends_with("\r\n\r\n") && ::recv(client.get(), &byte, 1, 0) == 1) head += byte;
    {
      const std::lock_guard lock(mutex_);
      head_ = head;
    }
    ::send(client.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL);
    if (!server_) return;
    const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = to_socket_address(Endpoint::tcp("127.0.0.1", *server_));
    if (::connect(server.get(), address->get(), address->length) == 0) pass(client, server);
  }

  static void pass(const UniqueFd& client, const UniqueFd& server) {
    std::array<pollfd, 2> ends = {pollfd{client.get(), POLLIN, 0}, pollfd{server.get(), POLLIN, 0}};
    while (::poll(ends.data(), ends.size(), kWaitTimeoutMs) > 0) {
      for (std::size_t from = 0; from < ends.size(); ++from) {
        if (ends[from].revents == 0) continue;
        std::array<char, 4096> bytes{};
        const ssize_t got = ::recv(ends[from].fd, bytes.data(), bytes.size(), 0);
        if (got <= 0) return;
        ::send(ends[1 - from].fd, bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL);
      }
    }
  }

  static constexpr int kWaitTimeoutMs = 20'000;
  const std::string answer_;
  const std::optional<std::uint16_t> server_;
  const LocalListener listener_;
  std::mutex mutex_;
  std::string head_;
  std::thread thread_;  // last: it uses the others
};

constexpr const char* kProxyAccepted = "HTTP/1.1 200 Connection established\r\n\r\n";

TEST(FetchThroughAProxy, PassesTlsOnUnread) {
  const ScratchDirectory directory;
  const TestCertificate certificate("DNS:localhost");
  certificate.write_to(directory.in("file"));
  ::setenv("SSL_CERT_FILE", directory.in("file").c_str(), 1);
  BlockingTlsServer server(certificate, {kBareHello});
  FakeProxy way(kProxyAccepted, server.port());
  Origin origin{true, "localhost", 8443, directory.in("file")};
  origin.proxy = way.proxy();
  origin.proxy->authorization = "Basic bWU6cGE1NQ==";
  ClientRequest request;
  request.target = "/s3cret";
  const auto response = fetch(origin, request, kTestTimeout);
  ::unsetenv("SSL_CERT_FILE");
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, "hello");
  EXPECT_EQ(way.head(),
            "CONNECT localhost:8443 HTTP/1.1\r\nHost: localhost:8443\r\n"
            "Proxy-Authorization: Basic bWU6cGE1NQ==\r\n\r\n");
  EXPECT_THAT(server.request(), HasSubstr("GET /s3cret HTTP/1.1\r\nHost: localhost:8443\r\n"));
  EXPECT_THAT(server.request(), Not(HasSubstr("Proxy-Authorization")));
}

TEST(FetchThroughAProxy, NamesTheServerInPlainText) {
  FakeProxy way(kBareHello, std::nullopt);
  Origin origin{false, "receiver.invalid", 9093};
  origin.proxy = way.proxy();
  ClientRequest request;
  request.target = "/api/v2/alerts";
  const auto response = fetch_status(origin, request, kTestTimeout, kDefaultMaxBodyBytes);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 200);
  EXPECT_THAT(way.head(), HasSubstr("GET http://receiver.invalid:9093/api/v2/alerts HTTP/1.1\r\n"
                                    "Host: receiver.invalid:9093\r\n"));
}

TEST(FetchThroughAProxy, ProxyRefusalErrorIncludesStatus) {
  FakeProxy way("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
                std::nullopt);
  Origin origin{true, "receiver.invalid", 443};
  origin.proxy = way.proxy();
  const auto response = fetch(origin, {}, kTestTimeout);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::unavailable);
  EXPECT_EQ(response.error().message,
            "the proxy 127.0.0.1:" + std::to_string(way.proxy().port) +
                " refused to connect to receiver.invalid:443: 407 Proxy Authentication Required");
}

TEST(FetchThroughAProxy, SaysThatTheProxyIsNotThere) {
  std::uint16_t nobody = 0;
  {
    nobody = LocalListener().port;
  }
  Origin origin{true, "receiver.invalid", 443};
  origin.proxy = Proxy{"127.0.0.1", nobody};
  const auto response = fetch(origin, {}, kTestTimeout);
  ASSERT_FALSE(response);
  EXPECT_THAT(response.error().message,
              HasSubstr("nothing is listening at the proxy 127.0.0.1:" + std::to_string(nobody)));
}

}  // namespace
}  // namespace gpuyard::http
