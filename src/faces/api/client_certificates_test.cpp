// Client certificates at each request, and answers to callers without a credential.
#include "faces/api/client_certificates.h"

#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

class CertificateRoutes : public LeaseRoutes {
 protected:
  // A client whose certificate is good for a minute.
  http::Peer certified() {
    http::Peer peer = over_tls();
    peer.certificate_names = {"DNS:prometheus.lab"};
    peer.certificate_fingerprint = "0a1b";
    peer.certificate_expires_at = ends_;
    return peer;
  }

  const WallTime ends_ = loop_.wall() + seconds(60);
};

TEST_F(CertificateRoutes, ValidCertificateIsAdmitted) {
  EXPECT_EQ(get("/api/gpu/leases", certified())->status(), 200);
}

TEST_F(CertificateRoutes, ExpiredCertificateIsRefusedOnOpenConnection) {
  const http::Peer peer = certified();
  pass(seconds(60));
  const auto refused = get("/api/gpu/leases", peer);
  EXPECT_EQ(refused->status(), 403);
  EXPECT_THAT(refused->message(), HasSubstr("expired at"));
}

TEST_F(CertificateRoutes, RevokedCertificateIsRefusedUntilRevocationIsRemoved) {
  const http::Peer peer = certified();
  certificates_.set_revoked({"0a1b"});
  const auto refused = get("/api/gpu/leases", peer);
  EXPECT_EQ(refused->status(), 403);
  EXPECT_THAT(refused->message(), HasSubstr("tls.revoked"));
  certificates_.set_revoked({});
  EXPECT_EQ(get("/api/gpu/leases", peer)->status(), 200);
}

TEST_F(CertificateRoutes, StreamsEndWhenCertificateExpires) {
  const auto stream = get("/api/gpu/events", certified());
  ASSERT_EQ(stream->status(), 200) << stream->text();
  ASSERT_NE(stream->answer->stream, nullptr);
  bool notified = false;
  stream->answer->stream->set_on_more([&] { notified = true; });
  pass(seconds(59));
  EXPECT_FALSE(stream->answer->stream->is_over());
  pass(seconds(1) + EndWatch<http::Peer>::kPollInterval);
  EXPECT_TRUE(stream->answer->stream->is_over());
  EXPECT_TRUE(notified);
}

TEST_F(CertificateRoutes, StreamsEndWhenCertificateIsRevoked) {
  const auto stream = get("/api/gpu/events", certified());
  ASSERT_NE(stream->answer->stream, nullptr);
  certificates_.set_revoked({"ffff"});
  EXPECT_FALSE(stream->answer->stream->is_over());
  certificates_.set_revoked({"0a1b"});
  EXPECT_TRUE(stream->answer->stream->is_over());
}

class AnonymousCallers : public LeaseRoutes {
 protected:
  AnonymousCallers() {
    tls_.reload_error = "the file /etc/secret/place/tls.pem expired";
    context_.daemon.tls = &tls_;
    context_.node.closed_listeners = &closed_;
  }
  metrics::TlsMetrics tls_;
  const std::map<std::string, std::string> closed_{{"tls.listen 192.0.2.9:9411", "is taken"}};
};

TEST_F(AnonymousCallers, GetOnlyTheStateOfTheDaemon) {
  const std::string text = get("/ready", over_tls())->text();
  for (const char* detail : {"/etc/secret", "192.0.2.9"}) EXPECT_THAT(text, Not(HasSubstr(detail)));
  EXPECT_THAT(text, HasSubstr(R"("notes":[])"));
  EXPECT_THAT(get("/health", over_tls())->text(), Not(HasSubstr("1.2.3")));
}

TEST_F(AnonymousCallers, GetPagesWithoutTheNameOfTheMachine) {
  for (const char* page : {"/gpu/0", "/queue", "/alerts", "/usage", "/audit", "/login"}) {
    const auto answer = get(page, over_tls());
    ASSERT_EQ(answer->status(), 200) << page;
    EXPECT_THAT(answer->text(), HasSubstr(R"(data-host="" data-version="")")) << page;
    EXPECT_THAT(answer->text(), HasSubstr("<title>gpuyard</title>")) << page;
    EXPECT_THAT(answer->text(), Not(HasSubstr("1.2.3"))) << page;
  }
}

// A local user with read access is not anonymous and sees what anonymous callers do not.
TEST_F(AnonymousCallers, ReadAccessRevealsServerDetails) {
  const std::string ready = get("/ready", local_user(kAlice))->text();
  EXPECT_THAT(ready, HasSubstr("/etc/secret/place/tls.pem"));
  EXPECT_THAT(ready, HasSubstr("tls.listen 192.0.2.9:9411 is closed: is taken"));
  EXPECT_THAT(get("/gpu/0", local_user(kAlice))->text(), HasSubstr(R"(data-version="1.2.3")"));
  EXPECT_THAT(get("/health", local_user(kAlice))->text(), HasSubstr("1.2.3"));
}

}  // namespace
}  // namespace gpuyard::api
