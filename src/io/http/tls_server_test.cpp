// A server's end of TLS, from bytes to bytes: the clients that it accepts, and hostile ones.
#include "io/http/tls_server.h"

#include <gmock/gmock.h>

#include "io/http/tls_client_for_tests.h"

namespace gpuyard::http {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string decrypted(TlsServer& server) {
  std::string text;
  char chunk[1000];
  for (;;) {
    const auto got = server.decrypt(chunk);
    EXPECT_TRUE(got) << got.error().message;
    if (!got || got->value_or(0) == 0) return text;
    text.append(chunk, **got);
  }
}

class TlsServerTest : public testing::Test {
 protected:
  // Whether a client with these options completes the handshake; if so, exchanges a text.
  bool can_exchange(const TlsClientForTests::Options& options) {
    client_.emplace(options);
    server_.emplace(*identity_);
    if (!agree(*client_, *server_)) return false;
    server_->feed(client_->encrypted("ping"));
    EXPECT_EQ(decrypted(*server_), "ping");
    EXPECT_TRUE(server_->encrypt("pong"));
    EXPECT_EQ(client_->decrypted(server_->take()), "pong");
    return true;
  }

  IdentityForTests ours_;
  std::shared_ptr<const ServerIdentity> identity_ = ours_.load();
  std::optional<TlsClientForTests> client_;
  std::optional<TlsServer> server_;
};

TEST_F(TlsServerTest, SpeaksTls12AndNewerOnly) {
  EXPECT_TRUE(can_exchange({}));
  EXPECT_STREQ(::SSL_get_version(client_->ssl()), "TLSv1.3");
  EXPECT_TRUE(can_exchange({.newest = TLS1_2_VERSION}));
  EXPECT_FALSE(can_exchange({.newest = TLS1_1_VERSION}));
  EXPECT_FALSE(can_exchange({.newest = TLS1_VERSION}));
}

TEST_F(TlsServerTest, HasOnlySuitesWithForwardSecrecyAndAead) {
  for (const char* suite : {"AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA256",
                            "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES128-CCM"}) {
    TlsClientForTests client({.newest = TLS1_2_VERSION});
    ASSERT_EQ(::SSL_set_cipher_list(client.ssl(), suite), 1) << suite;
    TlsServer server(*identity_);
    EXPECT_FALSE(agree(client, server)) << suite;
  }
  for (const char* group : {"P-521", "X448"}) {
    TlsClientForTests client;
    ASSERT_EQ(SSL_set1_groups_list(client.ssl(), group), 1) << group;
    TlsServer server(*identity_);
    EXPECT_FALSE(agree(client, server)) << group;
  }
}

TEST_F(TlsServerTest, AlpnAcceptsOnlyHttp11) {
  EXPECT_TRUE(can_exchange({.protocols = "\x02h2\x08http/1.1"}));
  const unsigned char* chosen = nullptr;
  unsigned int size = 0;
  ::SSL_get0_alpn_selected(client_->ssl(), &chosen, &size);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(chosen), size), "http/1.1");
  EXPECT_FALSE(can_exchange({.protocols = "\x02h2"}));
}

TEST_F(TlsServerTest, TakesBytesOneAtATime) {
  TlsClientForTests client;
  TlsServer server(*identity_);
  bool done = false;
  for (int flights = 0; flights < 4 && !done; ++flights) {
    client.handshake();
    for (const char byte : client.take()) {
      server.feed({&byte, 1});
      const auto step = server.handshake();
      ASSERT_TRUE(step) << step.error().message;
      done = *step;
      client.feed(server.take());
    }
  }
  ASSERT_TRUE(done);
  std::string records = client.encrypted("a");
  records += client.encrypted("b");
  std::string got;
  for (const char byte : records) {
    server.feed({&byte, 1});
    got += decrypted(server);
  }
  EXPECT_EQ(got, "ab");
}

// Cuts the only record of a ClientHello into records of one byte each.
TEST_F(TlsServerTest, TakesAHelloInRecordsOfOneByte) {
  TlsClientForTests client;
  client.handshake();
  const std::string hello = client.take();
  constexpr std::size_t kHeader = 5;
  std::string cut;
  for (const char byte : hello.substr(kHeader)) {
    cut += hello.substr(0, 3) + std::string("\0\x01", 2) + byte;
  }
  TlsServer server(*identity_);
  server.feed(cut);
  const auto step = server.handshake();
  ASSERT_TRUE(step) << step.error().message;
  client.feed(server.take());
  EXPECT_TRUE(client.handshake());
}

TEST_F(TlsServerTest, RefusesRecordsWithoutContent) {
  TlsServer server(*identity_);
  std::string empty;
  for (int i = 0; i < 100; ++i) empty += std::string("\x16\x03\x01\0\0", 5);
  server.feed(empty);
  EXPECT_FALSE(server.handshake());
}

TEST_F(TlsServerTest, RefusesGarbage) {
  for (const std::string& garbage :
       {std::string(100, '\0'), std::string(100, '\xff'), std::string(100, '\x16'),
        "\x16\x03\x01" + std::string("\0\x04\x02\0\0\0", 6)}) {
    TlsServer server(*identity_);
    server.feed(garbage);
    const auto step = server.handshake();
    ASSERT_FALSE(step);
    EXPECT_THAT(step.error().message, HasSubstr("agreeing over TLS failed"));
    EXPECT_THAT(server.take(), AnyOf("", StartsWith("\x15")));  // an alert
  }
}

TEST_F(TlsServerTest, FailsOnARecordThatWasChanged) {
  ASSERT_TRUE(can_exchange({}));
  std::string record = client_->encrypted("hello");
  record.back() ^= 1;
  server_->feed(record);
  char space[100];
  EXPECT_FALSE(server_->decrypt(space));
}

TEST_F(TlsServerTest, HoldsNoMoreOfAHandshakeThanItsLimit) {
  // The header of a hello of 128 KiB, which is allowed, and its body that does not end.
  TlsServer server(*identity_);
  const std::string header("\x16\x03\x01\x40\x00", 5);
  server.feed(header + std::string("\x01\x02\0\0", 4) + std::string(0x4000 - 4, 'x'));
  auto step = server.handshake();
  for (int i = 0; step && i < 10; ++i) {
    EXPECT_FALSE(*step);
    server.feed(header + std::string(0x4000, 'x'));
    step = server.handshake();
  }
  ASSERT_FALSE(step);
  EXPECT_THAT(step.error().message, HasSubstr("received more than 65536 bytes"));
}

TEST_F(TlsServerTest, RenegotiationIsRefused) {
  ASSERT_TRUE(can_exchange({.newest = TLS1_2_VERSION}));
  ASSERT_EQ(::SSL_renegotiate(client_->ssl()), 1);
  client_->handshake();
  server_->feed(client_->take());
  char space[100];
  const auto got = server_->decrypt(space);
  EXPECT_TRUE(!got || !*got);
  client_->feed(server_->take());
  EXPECT_FALSE(client_->handshake());
  EXPECT_THAT(TlsClientForTests::reason(), HasSubstr("no renegotiation"));
}

TEST_F(TlsServerTest, ChangesKeysNowAndThenButNotWithoutAnEnd) {
  ASSERT_TRUE(can_exchange({}));
  const auto change_keys = [&] {
    EXPECT_EQ(::SSL_key_update(client_->ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
    client_->handshake();
    return client_->take();
  };
  server_->feed(change_keys());
  server_->feed(client_->encrypted("again"));
  EXPECT_EQ(decrypted(*server_), "again");
  ASSERT_TRUE(server_->encrypt("and again"));
  EXPECT_EQ(client_->decrypted(server_->take()), "and again");
  for (int i = 0; i < 100; ++i) server_->feed(change_keys());
  char space[10];
  EXPECT_FALSE(server_->decrypt(space));
}

TEST_F(TlsServerTest, SaysAndHearsGoodbye) {
  ASSERT_TRUE(can_exchange({}));
  server_->send_close_notify();
  EXPECT_EQ(client_->decrypted(server_->take()), "");
  EXPECT_TRUE(client_->has_received_close_notify());
  ::SSL_shutdown(client_->ssl());
  server_->feed(client_->take());
  char space[10];
  const auto got = server_->decrypt(space);
  ASSERT_TRUE(got && *got);
  EXPECT_EQ(**got, 0U);
}

TEST_F(TlsServerTest, SealsAShortAnswerIntoOneRecord) {
  ASSERT_TRUE(can_exchange({}));
  ASSERT_TRUE(server_->encrypt(std::string(10'000, 'x')));
  const std::string sealed = server_->take();
  EXPECT_LT(sealed.size(), 10'100U);
  EXPECT_EQ(client_->decrypted(sealed).size(), 10'000U);
  ASSERT_TRUE(server_->encrypt(std::string(1'000'000, 'x')));
  EXPECT_EQ(client_->decrypted(server_->take()).size(), 1'000'000U);
}

TEST_F(TlsServerTest, ResumesSessionsAfterANewCertificate) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    ASSERT_TRUE(can_exchange({.newest = version}));
    EXPECT_FALSE(client_->is_resumed());
    const ClientSession ticket = client_->session();
    ours_.renew();
    identity_ = ours_.load(identity_);
    ASSERT_TRUE(can_exchange({.newest = version, .resumes = ticket.get()}));
    EXPECT_TRUE(client_->is_resumed());
    identity_ = ours_.load();  // as after a restart
    ASSERT_TRUE(can_exchange({.newest = version, .resumes = ticket.get()}));
    EXPECT_FALSE(client_->is_resumed());
  }
}

TEST_F(TlsServerTest, FullHandshakeFollowsReplacedTicketKeys) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    ASSERT_TRUE(can_exchange({.newest = version}));
    const ClientSession ticket = client_->session();
    const auto later = load_identity(ours_.files, wall_now() + kTicketKeyLifetime, identity_);
    ASSERT_TRUE(later);
    identity_ = *later;
    ASSERT_TRUE(can_exchange({.newest = version, .resumes = ticket.get()}));
    EXPECT_FALSE(client_->is_resumed());
    identity_ = ours_.load();
  }
}

class TlsServerWithClients : public TlsServerTest {
 protected:
  TlsServerWithClients() {
    ours_.trust(known_);
    identity_ = ours_.load();
  }
  TestCertificate known_{"URI:spiffe://yard/node7,DNS:node7"};
  TestCertificate unknown_{"URI:spiffe://yard/node7"};
};

TEST_F(TlsServerWithClients, KnowsAClientByTheNamesOfItsCertificate) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    ASSERT_TRUE(can_exchange({.newest = version, .shows = &known_}));
    const auto client = server_->client_certificate();
    ASSERT_TRUE(client);
    EXPECT_THAT(client->names, ElementsAre("URI:spiffe://yard/node7", "DNS:node7"));
    EXPECT_EQ(client->fingerprint, facts_of(known_.certificate.get()).fingerprint);
  }
}

TEST_F(TlsServerWithClients, ClientCertificateIsOptionalButUnknownIsRefused) {
  ASSERT_TRUE(can_exchange({}));
  EXPECT_FALSE(server_->client_certificate());
  EXPECT_FALSE(can_exchange({.shows = &unknown_}));
  EXPECT_FALSE(server_->client_certificate());
}

TEST_F(TlsServerWithClients, EmptyClientCaRequestsNoCertificate) {
  ours_.files.client_ca.clear();
  identity_ = ours_.load();
  ASSERT_TRUE(can_exchange({.shows = &known_}));
  EXPECT_FALSE(server_->client_certificate());
}

TEST_F(TlsServerWithClients, TrustsNoTicketFromBeforeTheRootsChanged) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    ours_.trust(known_);
    identity_ = ours_.load(identity_);
    ASSERT_TRUE(can_exchange({.newest = version, .shows = &known_}));
    const ClientSession ticket = client_->session();
    ASSERT_TRUE(can_exchange({.newest = version, .resumes = ticket.get()}));
    EXPECT_TRUE(client_->is_resumed());
    EXPECT_TRUE(server_->client_certificate());
    ours_.trust(unknown_);
    identity_ = ours_.load(identity_);
    ASSERT_TRUE(can_exchange({.newest = version, .resumes = ticket.get()}));
    EXPECT_FALSE(client_->is_resumed());
    EXPECT_FALSE(server_->client_certificate());
  }
}

}  // namespace
}  // namespace gpuyard::http
