// The client over TLS: the servers that it trusts, and the answers that it refuses.
#include <stdlib.h>

#include <future>
#include <optional>

#include <gmock/gmock.h>

#include "io/http/client.h"
#include "io/http/messages_for_tests.h"
#include "io/http/origin.h"
#include "io/http/raw_client_for_tests.h"
#include "io/http/resolver.h"
#include "io/http/self_signed.h"
#include "io/http/tls_server_for_tests.h"

namespace gpuyard::http {
namespace {

using std::chrono::milliseconds;
using testing::AnyOf;
using testing::HasSubstr;

constexpr const char* kOwnNames = "DNS:localhost,IP:127.0.0.1";

// Trusts one certificate that no server here has, whatever this machine trusts.
class FetchOverTls : public testing::Test {
 protected:
  FetchOverTls() {
    TestCertificate("DNS:nobody.example").write_to(directory_.in("b.sock"));
    ::setenv("SSL_CERT_FILE", directory_.in("b.sock").c_str(), 1);
  }
  ~FetchOverTls() override { ::unsetenv("SSL_CERT_FILE"); }

  void start(const TestCertificate& certificate, BlockingTlsServer::Options options) {
    certificate.write_to(ca_file());
    server_.emplace(certificate, std::move(options));
  }
  std::string ca_file() const { return directory_.in("file"); }

  Result<ClientResponse> fetch_from(const std::string& host, const std::string& ca,
                                    const ClientRequest& request = {}) {
    return fetch(Origin{true, host, server_->port(), ca}, request, kTestTimeout);
  }

  ScratchDirectory directory_;
  std::optional<BlockingTlsServer> server_;
};

TEST_F(FetchOverTls, ResponseIsReturned) {
  start(TestCertificate(kOwnNames), {kBareHello});
  ClientRequest request;
  request.method = Method::post;
  request.target = "/a?b";
  request.body = std::string(300'000, 'x');
  const auto response = fetch_from("localhost", ca_file(), request);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, "hello");
  EXPECT_EQ(server_->server_name(), "localhost");
  EXPECT_THAT(server_->request(), HasSubstr("POST /a?b HTTP/1.1\r\nHost: localhost:"));
  EXPECT_TRUE(server_->request().ends_with("\r\n\r\n" + request.body));
}

TEST_F(FetchOverTls, LargeResponseUntilConnectionEndIsReturned) {
  const std::string body(3'000'000, 'x');
  start(TestCertificate(kOwnNames), {"HTTP/1.1 200 OK\r\n\r\n" + body});
  const auto response = fetch_from("127.0.0.1", ca_file());
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, body);
  EXPECT_EQ(server_->server_name(), "");  // an address is no name
}

TEST_F(FetchOverTls, TruncatedResponseIsUnavailable) {
  start(TestCertificate(kOwnNames), {"HTTP/1.1 200 OK\r\n\r\nhalf", false});
  const auto response = fetch_from("localhost", ca_file());
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::unavailable);
}

TEST_F(FetchOverTls, UnknownIssuerIsDeniedBeforeRequest) {
  start(TestCertificate(kOwnNames), {kBareHello});
  const auto response = fetch_from("localhost", "");
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::denied);
  EXPECT_THAT(response.error().message,
              HasSubstr("is not trusted: self-signed certificate; if its certificate is correct, "
                        "set ca_file to the certificate of its issuer"));
  EXPECT_EQ(server_->request(), "");  // nothing was sent to it
}

TEST_F(FetchOverTls, InvalidCaFileIsNamedInError) {
  start(TestCertificate(kOwnNames), {kBareHello});
  const std::string missing = directory_.in("missing");
  const auto none = fetch_from("localhost", missing);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error(), (Error{Errc::not_found,
                                 "ca_file: opening " + missing + ": No such file or directory"}));
  directory_.write("empty.pem", "");
  const auto empty = fetch_from("localhost", directory_.in("empty.pem"));
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, Errc::invalid);
  EXPECT_THAT(empty.error().message, HasSubstr("empty.pem contains no trusted certificates"));
}

TEST_F(FetchOverTls, HostnameMismatchIsDeniedBeforeRequest) {
  start(TestCertificate("DNS:other.example,IP:127.0.0.2"), {kBareHello});
  for (const auto& [host, why] : {std::pair{"localhost", "hostname mismatch"},
                                  std::pair{"127.0.0.1", "IP address mismatch"}}) {
    const auto response = fetch_from(host, ca_file());
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, Errc::denied);
    EXPECT_THAT(response.error().message, HasSubstr(why));
  }
  EXPECT_EQ(server_->request(), "");
}

TEST_F(FetchOverTls, CaPemIsTrustedWithoutAFile) {
  start(TestCertificate(kOwnNames), {kBareHello});
  Origin origin{true, "localhost", server_->port()};
  origin.ca_pem = "# a remark\n" + directory_.read("file");
  const auto response = fetch(origin, ClientRequest(), kTestTimeout);
  EXPECT_TRUE(response) << response.error().message;
}

// Some clusters give their clients the certificate of an intermediate CA, without its root.
TEST_F(FetchOverTls, IntermediateInCaPemIsTrusted) {
  const auto sign = [](const TestCertificate& one, const TestCertificate& by) {
    X509* x = one.certificate.get();
    ::X509_set_issuer_name(x, ::X509_get_subject_name(by.certificate.get()));
    EXPECT_GT(::X509_sign(x, by.key.get(), ::EVP_sha256()), 0);
  };
  const TestCertificate root("DNS:root.example");
  const TestCertificate intermediate("DNS:intermediate.example");
  const TestCertificate leaf(kOwnNames);
  sign(intermediate, root);
  sign(leaf, intermediate);
  start(leaf, {kBareHello});
  intermediate.write_to(directory_.in("a.sock"));
  Origin origin{true, "localhost", server_->port()};
  origin.ca_pem = directory_.read("a.sock");
  const auto response = fetch(origin, ClientRequest(), kTestTimeout);
  EXPECT_TRUE(response) << response.error().message;
}

TEST_F(FetchOverTls, CaPemReplacesTheOtherTrust) {
  start(TestCertificate(kOwnNames), {kBareHello});
  ::setenv("SSL_CERT_FILE", ca_file().c_str(), 1);
  Origin origin{true, "localhost", server_->port(), ca_file()};
  origin.ca_pem = directory_.read("b.sock");
  const auto response = fetch(origin, ClientRequest(), kTestTimeout);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::denied);
  EXPECT_THAT(response.error().message,
              testing::EndsWith("is not trusted: self-signed certificate"));
  EXPECT_EQ(server_->request(), "");
}

TEST_F(FetchOverTls, EmptyOrDamagedCaPemTrustsNothing) {
  start(TestCertificate(kOwnNames), {kBareHello});
  const std::string good = directory_.read("file");
  const std::string damaged =
      good + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  for (const auto& [pem, why] : {std::pair<std::string, const char*>{"", "no PEM certificate"},
                                 {"text", "no PEM certificate"},
                                 {damaged, "a damaged certificate"}}) {
    Origin origin{true, "localhost", server_->port(), ca_file()};
    origin.ca_pem = pem;
    const auto response = fetch(origin, ClientRequest(), kTestTimeout);
    ASSERT_FALSE(response) << pem;
    EXPECT_EQ(response.error().code, Errc::invalid);
    EXPECT_THAT(response.error().message, HasSubstr(why));
  }
}

TEST_F(FetchOverTls, TrustsNoCertificateThatHasExpired) {
  start(TestCertificate(kOwnNames, -60), {kBareHello});
  const auto response = fetch_from("localhost", ca_file());
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::denied);
  EXPECT_THAT(response.error().message, HasSubstr("certificate has expired"));
}

TEST_F(FetchOverTls, SslCertFileFromEnvironmentIsTrusted) {
  start(TestCertificate(kOwnNames), {kBareHello});
  ::setenv("SSL_CERT_FILE", ca_file().c_str(), 1);
  const auto response = fetch_from("localhost", "");
  EXPECT_TRUE(response) << response.error().message;
}

// A pin for a name that the certificate does not have, from a signer nobody knows, and out of date.
TEST_F(FetchOverTls, PinnedKeyOverridesNameIssuerAndExpiry) {
  const TestCertificate certificate("DNS:other.example", -60);
  start(certificate, {kBareHello});
  const std::string pin = facts_of(certificate.certificate.get()).pin;
  const auto response =
      fetch(Origin{true, "localhost", server_->port(), "", pin}, ClientRequest(), kTestTimeout);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, "hello");
}

TEST_F(FetchOverTls, PinMismatchIsDeniedWithBothPins) {
  const TestCertificate certificate(kOwnNames);
  start(certificate, {kBareHello});
  const std::string shown = facts_of(certificate.certificate.get()).pin;
  const std::string wanted = facts_of(TestCertificate(kOwnNames).certificate.get()).pin;
  const auto response = fetch(Origin{true, "localhost", server_->port(), ca_file(), wanted},
                              ClientRequest(), kTestTimeout);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::denied);
  EXPECT_THAT(response.error().message,
              HasSubstr("its public key is " + shown + ", not " + wanted + " as pinned"));
  EXPECT_EQ(server_->request(), "");  // nothing was sent to it
}

TEST_F(FetchOverTls, MalformedPinIsInvalid) {
  start(TestCertificate(kOwnNames), {kBareHello});
  const auto response =
      fetch(Origin{true, "localhost", server_->port(), "", "sha256//abc"}, {}, kTestTimeout);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::invalid);
  EXPECT_THAT(response.error().message, HasSubstr("'sha256//abc' is not a public key pin"));
}

TEST_F(FetchOverTls, UntrustedCertificateIsFetchedWithoutRequest) {
  const TestCertificate certificate("DNS:other.example");
  start(certificate, {kBareHello});
  const auto shown = fetch_certificate(Origin{true, "localhost", server_->port()}, kTestTimeout);
  ASSERT_TRUE(shown) << shown.error().message;
  EXPECT_EQ(shown->facts.pin, facts_of(certificate.certificate.get()).pin);
  EXPECT_THAT(shown->facts.names, testing::ElementsAre("DNS:other.example"));
  EXPECT_EQ(shown->distrust_reason, "self-signed certificate");
  const auto named =
      fetch_certificate(Origin{true, "localhost", server_->port(), ca_file()}, kTestTimeout);
  ASSERT_TRUE(named);
  EXPECT_EQ(named->distrust_reason, "hostname mismatch");
  EXPECT_EQ(server_->request(), "");
  // It also works on a machine without any trusted certificates.
  ::setenv("SSL_CERT_FILE", "/nonexistent.pem", 1);
  EXPECT_TRUE(fetch_certificate(Origin{true, "localhost", server_->port()}, kTestTimeout));
}

TEST_F(FetchOverTls, TrustedCertificateHasEmptyDistrust) {
  start(TestCertificate(kOwnNames), {kBareHello});
  const auto shown =
      fetch_certificate(Origin{true, "localhost", server_->port(), ca_file()}, kTestTimeout);
  ASSERT_TRUE(shown) << shown.error().message;
  EXPECT_EQ(shown->distrust_reason, "");
}

// A client can trust a self-signed certificate by its file, as by its pin.
TEST_F(FetchOverTls, SelfSignedCertificateAsCaFileIsTrusted) {
  const auto made = make_self_signed({"localhost"}, wall_now());
  ASSERT_TRUE(made);
  const std::string file = directory_.write("made.crt", made->certificate);
  const std::unique_ptr<BIO, decltype(&::BIO_free)> text(
      ::BIO_new_mem_buf(made->certificate.data(), -1), &::BIO_free);
  const std::unique_ptr<BIO, decltype(&::BIO_free)> key(::BIO_new_mem_buf(made->key.data(), -1),
                                                        &::BIO_free);
  TestCertificate ours("DNS:replaced");
  ours.certificate.reset(::PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  ours.key.reset(::PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr));
  start(ours, {kBareHello});
  const auto response = fetch_from("localhost", file);
  EXPECT_TRUE(response) << response.error().message;
}

TEST_F(FetchOverTls, NamesAFileOfTheEnvironmentThatIsMissing) {
  start(TestCertificate(kOwnNames), {kBareHello});
  ::setenv("SSL_CERT_FILE", "/nonexistent.pem", 1);
  const auto response = fetch_from("localhost", "");
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::not_found);
  EXPECT_THAT(response.error().message,
              HasSubstr("SSL_CERT_FILE: opening /nonexistent.pem: No such"));
}

TEST_F(FetchOverTls, Tls12OnlyServerIsAccepted) {
  start(TestCertificate(kOwnNames), {kBareHello, true, TLS1_2_VERSION});
  const auto response = fetch_from("localhost", ca_file());
  EXPECT_TRUE(response) << response.error().message;
}

TEST_F(FetchOverTls, HasADeadlineForTheHandshakeToo) {
  const LocalListener silent;
  const auto response =
      fetch(Origin{true, "127.0.0.1", silent.port}, ClientRequest(), milliseconds(30));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::timed_out);
}

TEST_F(FetchOverTls, CallsAServerThatSpeaksPlainTextUnavailable) {
  const LocalListener listener;
  std::thread server([&] {
    pollfd ready{listener.socket.get(), POLLIN, 0};
    ::poll(&ready, 1, -1);
    const UniqueFd client(::accept(listener.socket.get(), nullptr, nullptr));
    const std::string_view answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    ::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    char rest[4096];
    ::recv(client.get(), rest, sizeof rest, 0);
  });
  const auto response =
      fetch(Origin{true, "127.0.0.1", listener.port}, ClientRequest(), kTestTimeout);
  server.join();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::unavailable);
  EXPECT_THAT(response.error().message, HasSubstr("wrong version number"));
}

TEST(Origin, IsWrittenAsInAHostField) {
  EXPECT_EQ((Origin{true, "a.example", 443}.text()), "a.example");
  EXPECT_EQ((Origin{true, "a.example", 80}.text()), "a.example:80");
  EXPECT_EQ((Origin{false, "::1", 80}.text()), "[::1]");
  EXPECT_EQ((Origin{false, "::1", 9093}.text()), "[::1]:9093");
}

TEST(Origin, AuthorityIsReadWithAndWithoutAPort) {
  Origin origin;
  EXPECT_TRUE(read_authority("a.example", origin));
  EXPECT_EQ(origin, (Origin{true, "a.example", 443}));
  EXPECT_TRUE(read_authority("a.example:6443", origin));
  EXPECT_EQ(origin, (Origin{true, "a.example", 6443}));
  EXPECT_TRUE(read_authority("[fd00::1]:6443", origin));
  EXPECT_EQ(origin, (Origin{true, "fd00::1", 6443}));
  for (const char* bad : {"", ":1", "[::1", "::1", "a:0", "a:65536", "a:b", "a@b", "[::1]x"}) {
    EXPECT_FALSE(read_authority(bad, origin)) << bad;
  }
}

TEST(Resolve, LiteralAndLocalhostNeedNoLookup) {
  const auto six = resolve("::1", 80, BootClock::now());
  ASSERT_TRUE(six) << six.error().message;
  EXPECT_EQ(*six, std::vector{Endpoint::tcp("::1", 80)});
  const auto local = resolve("localhost", 81, BootClock::now() + kTestTimeout);
  ASSERT_TRUE(local) << local.error().message;
  EXPECT_THAT(*local, testing::Contains(Endpoint::tcp("127.0.0.1", 81)));
}

TEST(Resolve, WaitsForNoNameServiceBeyondItsDeadline) {
  const TimePoint began = BootClock::now();
  const auto nobody = resolve("nobody.invalid", 80, began + milliseconds(50));
  ASSERT_FALSE(nobody);
  EXPECT_THAT(nobody.error().code, AnyOf(Errc::unavailable, Errc::timed_out));
  EXPECT_THAT(nobody.error().message, HasSubstr("nobody.invalid"));
  EXPECT_LT(BootClock::now() - began, kTestTimeout);
}

TEST(Resolve, TooManyPendingLookupsAreRefused) {
  std::promise<void> enough;
  const Lookup hangs = [until = enough.get_future().share()](const auto&, std::uint16_t) {
    until.wait();
    return Error{Errc::unavailable, "late"};
  };
  const auto ask = [&] { return resolve_with(hangs, "a.example", 80, BootClock::now()); };
  std::size_t asked = 0;  // may be less than kMaxLookups: another test's may still be under way
  Error last = ask().error();
  for (; asked <= kMaxLookups && last.code == Errc::timed_out; last = ask().error()) ++asked;
  EXPECT_GT(asked, 0U);
  EXPECT_LE(asked, kMaxLookups);
  EXPECT_EQ(last.code, Errc::unavailable);
  EXPECT_EQ(last.message,
            "cannot look up a.example: 64 name lookups are still waiting for an answer");
  EXPECT_TRUE(resolve("127.0.0.1", 80, BootClock::now()));
  enough.set_value();
  const Lookup answers = [](const std::string& host, std::uint16_t port) {
    return std::vector{Endpoint::tcp(host, port)};
  };
  const TimePoint until = BootClock::now() + kTestTimeout;
  while (!resolve_with(answers, "a.example", 80, until)) ASSERT_LT(BootClock::now(), until);
}

}  // namespace
}  // namespace gpuyard::http
