// Servers over TLS and real sockets: what a memory pipe cannot show.
#include <netinet/in.h>

#include "io/http/server_for_tests.h"
#include "io/http/tls_client_for_tests.h"

namespace gpuyard::http {
namespace {

using std::chrono::seconds;

class TlsOverSockets : public ServerTest {
 protected:
  // A client over TLS on a socket of its own.
  struct Client {
    Client(IoLoop& loop, std::uint16_t port) : raw(loop, Endpoint::tcp("127.0.0.1", port)) {}
    RawClient raw;
    TlsClientForTests tls;
  };

  void start() {
    server_ = std::make_unique<Server>(loop_, handler());
    const auto bound = server_->listen_tls("127.0.0.1", 0, door_);
    ASSERT_TRUE(bound) << bound.error().message;
    port_ = bound->port;
  }
  bool agree_with(Client& client) {
    return loop_.run_until(
               [&] {
                 client.tls.feed(client.raw.take_received());
                 const bool done = client.tls.handshake();
                 if (const std::string bytes = client.tls.take(); !bytes.empty())
                   client.raw.send(bytes);
                 return done || client.raw.ended();
               },
               kTestTimeout) &&
           !client.raw.ended();
  }
  std::string ask(Client& client) {
    client.raw.send(client.tls.encrypted(kGet));
    std::string answer;
    settle([&] {
      answer += client.tls.decrypted(client.raw.take_received());
      return answer.ends_with("hello") || client.raw.ended();
    });
    return answer;
  }
  // Connects from an address of its own and stops after its hello.
  UniqueFd stall(int address) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(0x7f000002U + static_cast<std::uint32_t>(address));
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&from), sizeof from), 0);
    const auto to = to_socket_address(Endpoint::tcp("127.0.0.1", port_));
    EXPECT_EQ(::connect(socket.get(), to->get(), to->length), 0);
    TlsClientForTests client;
    client.handshake();
    const std::string hello = client.take();
    EXPECT_GT(::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL), 0);
    return socket;
  }

  IdentityForTests ours_;
  std::shared_ptr<IdentitySource> door_ = std::make_shared<IdentitySource>(ours_.load());
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
};

TEST_F(TlsOverSockets, StalledHandshakesDoNotBlockNewClient) {
  start();
  const Limits limits;
  std::vector<UniqueFd> stalled;
  for (std::size_t i = 0; i < limits.handshakes; ++i) {
    stalled.push_back(stall(static_cast<int>(i / limits.handshakes_per_group)));
  }
  ASSERT_TRUE(settle([&] { return server_->counters().handshakes == limits.handshakes; }));
  loop_.run_until([] { return false; }, 2 * limits.handshake_stall_timeout);
  Client client(loop_, port_);
  const TimePoint began = BootClock::now();
  ASSERT_TRUE(agree_with(client));
  EXPECT_EQ(ask(client), kHello);
  EXPECT_LT(BootClock::now() - began, seconds(1));
  EXPECT_EQ(server_->counters().handshakes, limits.handshakes - 1);  // one gave way
}

TEST_F(TlsOverSockets, RenewedCertificateAppliesToNewConnectionsOnly) {
  start();
  Client before(loop_, port_);
  ASSERT_TRUE(agree_with(before));
  EXPECT_EQ(ask(before), kHello);
  const auto first = door_->identity();
  ours_.renew(ours_.key());
  door_->set_identity(ours_.load(first));
  Client after(loop_, port_);
  ASSERT_TRUE(agree_with(after));
  const auto shown = [](Client& client) {
    return facts_of(::SSL_get0_peer_certificate(client.tls.ssl()));
  };
  EXPECT_EQ(shown(before).fingerprint, first->facts.fingerprint);
  EXPECT_EQ(shown(after).fingerprint, door_->identity()->facts.fingerprint);
  EXPECT_NE(shown(after).fingerprint, shown(before).fingerprint);
  EXPECT_EQ(shown(after).pin, shown(before).pin);
  EXPECT_EQ(ask(before), kHello);
  EXPECT_EQ(ask(after), kHello);
}

TEST_F(TlsOverSockets, ShutdownEndsHandshakesAndConnections) {
  start();
  const UniqueFd stalled = stall(0);
  Client client(loop_, port_);
  ASSERT_TRUE(agree_with(client));
  ASSERT_TRUE(settle([&] { return server_->counters().active == 1; }));
  bool drained = false;
  server_->shutdown(seconds(5), [&] { drained = true; });
  EXPECT_TRUE(settle([&] { return drained && client.raw.ended(); }));
  EXPECT_EQ(server_->counters().handshakes, 0U);
  server_.reset();
  loop_.poll();
}

}  // namespace
}  // namespace gpuyard::http
