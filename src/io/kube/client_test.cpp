// The client over real sockets: what it sends, whom it trusts, and which answers it takes.
#include "io/kube/client.h"

#include <stdlib.h>

#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/scratch_directory_for_tests.h"
#include "io/http/raw_client_for_tests.h"
#include "io/http/tls_server_for_tests.h"

namespace gpuyard::kube {
namespace {

using http::BlockingTlsServer;
using http::kTestTimeout;
using http::TestCertificate;
using std::chrono::milliseconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kNode = R"({"kind":"Node"})";
constexpr const char* kNodes = "/api/v1/nodes";

std::string http_answer(const std::string& status, const std::string& body,
                        const std::string& fields = "") {
  return fmt::format("HTTP/1.1 {}\r\n{}Content-Length: {}\r\n\r\n{}", status, fields, body.size(),
                     body);
}

class KubeClient : public testing::Test {
 protected:
  KubeClient() { directory_.write("token", "abc.def\n"); }

  void start(const std::string& answer = http_answer("200 OK", kNode), bool ends_properly = true) {
    server_ = nullptr;
    const TestCertificate certificate("IP:127.0.0.1");
    certificate.write_to(ca_file());
    server_ = std::make_unique<BlockingTlsServer>(
        certificate, BlockingTlsServer::Options{answer, ends_properly});
  }
  std::string ca_file() const { return directory_.in("ca.crt"); }
  Client client(Duration timeout = kTestTimeout) const {
    const auto server =
        api_server_of_pod({"127.0.0.1", std::to_string(server_->port()), directory_.path()});
    EXPECT_TRUE(server);
    return Client(server ? *server : ApiServer(), timeout);
  }

  ScratchDirectory directory_;
  std::unique_ptr<BlockingTlsServer> server_;
};

TEST_F(KubeClient, GetSendsTheTokenAndReturnsTheObject) {
  start();
  const Answer answer = client().get("/api/v1/nodes/n1");
  EXPECT_EQ(answer.outcome, Outcome::ok) << answer.message;
  EXPECT_EQ(answer.body, kNode);
  const std::string request = server_->request();
  EXPECT_THAT(request, StartsWith("GET /api/v1/nodes/n1 HTTP/1.1\r\nHost: 127.0.0.1:"));
  EXPECT_THAT(request, HasSubstr("\r\nAuthorization: Bearer abc.def\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\nAccept: application/json\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\nUser-Agent: gpuyard\r\n"));
  EXPECT_THAT(request, EndsWith("\r\n\r\n"));
}

TEST_F(KubeClient, ListEncodesItsSelectors) {
  start();
  EXPECT_TRUE(client()
                  .list(kNodes, {.label_selector = "gpuyard.io/node=n1,a!=b",
                                 .field_selector = "spec.nodeName=n1",
                                 .limit = 200,
                                 .continue_at = "a=="})
                  .ok());
  EXPECT_THAT(
      server_->request(),
      StartsWith("GET /api/v1/nodes?labelSelector=gpuyard.io%2Fnode%3Dn1%2Ca%21%3Db&"
                 "fieldSelector=spec.nodeName%3Dn1&limit=200&continue=a%3D%3D HTTP/1.1\r\n"));
  EXPECT_TRUE(client().list(kNodes).ok());
  EXPECT_THAT(server_->request(), StartsWith("GET /api/v1/nodes HTTP/1.1\r\n"));
}

TEST_F(KubeClient, CreatePostsTheObject) {
  start(http_answer("201 Created", kNode));
  const Answer answer = client().create(kNodes, kNode);
  EXPECT_EQ(answer.outcome, Outcome::ok) << answer.message;
  EXPECT_EQ(answer.status, 201);
  EXPECT_THAT(server_->request(), StartsWith("POST /api/v1/nodes HTTP/1.1\r\n"));
  EXPECT_THAT(server_->request(), HasSubstr("\r\nContent-Type: application/json\r\n"));
  EXPECT_THAT(server_->request(), EndsWith(std::string("\r\n\r\n") + kNode));
}

TEST_F(KubeClient, PatchNamesItsTypeAndVersion) {
  start();
  EXPECT_TRUE(client()
                  .patch("/api/v1/nodes/n1", PatchType::merge,
                         R"({"metadata":{"name":"n1"},"spec":{"taints":[]}})", "42")
                  .ok());
  EXPECT_THAT(server_->request(), StartsWith("PATCH /api/v1/nodes/n1 HTTP/1.1\r\n"));
  EXPECT_THAT(server_->request(), HasSubstr("\r\nContent-Type: application/merge-patch+json\r\n"));
  EXPECT_THAT(
      server_->request(),
      EndsWith(R"({"metadata":{"name":"n1","resourceVersion":"42"},"spec":{"taints":[]}})"));
  EXPECT_TRUE(client()
                  .patch("/api/v1/nodes/n1/status", PatchType::strategic_merge, R"({"a": 1})", "43")
                  .ok());
  EXPECT_THAT(server_->request(),
              HasSubstr("\r\nContent-Type: application/strategic-merge-patch+json\r\n"));
  EXPECT_THAT(server_->request(), EndsWith(R"({"a":1,"metadata":{"resourceVersion":"43"}})"));
}

TEST_F(KubeClient, PatchWithoutAVersionIsSentAsItIs) {
  start();
  EXPECT_TRUE(client().patch(kNodes, PatchType::merge, R"({ "a" : 1.0 })").ok());
  EXPECT_THAT(server_->request(), EndsWith("\r\n\r\n{ \"a\" : 1.0 }"));
}

TEST_F(KubeClient, PatchThatIsNoObjectIsNotSent) {
  start();
  for (const char* bad : {"[]", "{", ""}) {
    EXPECT_EQ(client().patch(kNodes, PatchType::merge, bad, "42").outcome, Outcome::rejected);
  }
  EXPECT_EQ(server_->request(), "");
}

TEST_F(KubeClient, RemoveBindsItselfToTheUid) {
  start();
  EXPECT_TRUE(client().remove("/api/v1/nodes/n1", "4-5").ok());
  EXPECT_THAT(server_->request(), StartsWith("DELETE /api/v1/nodes/n1 HTTP/1.1\r\n"));
  EXPECT_THAT(
      server_->request(),
      EndsWith("\r\n\r\n"
               R"({"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"4-5"}})"));
  EXPECT_TRUE(client().remove("/api/v1/nodes/n1", "").ok());
  EXPECT_THAT(server_->request(), EndsWith("\r\n\r\n"));
}

TEST_F(KubeClient, PathPrefixPrecedesEachPath) {
  start();
  auto server =
      api_server_of_pod({"127.0.0.1", std::to_string(server_->port()), directory_.path()});
  ASSERT_TRUE(server);
  server->path_prefix = "/k8s/clusters/c1";
  EXPECT_TRUE(Client(*server).get(kNodes).ok());
  EXPECT_THAT(server_->request(), StartsWith("GET /k8s/clusters/c1/api/v1/nodes HTTP/1.1\r\n"));
}

TEST_F(KubeClient, RotatedTokenIsSentWithTheNextRequest) {
  start();
  const Client kept = client();
  EXPECT_TRUE(kept.get(kNodes).ok());
  directory_.write("token", "ghi.jkl");
  EXPECT_TRUE(kept.get(kNodes).ok());
  EXPECT_THAT(server_->request(), HasSubstr("\r\nAuthorization: Bearer ghi.jkl\r\n"));
}

TEST_F(KubeClient, RotatedCaIsTrustedWithTheNextRequest) {
  start();
  const std::string good = directory_.read("ca.crt");
  TestCertificate("IP:127.0.0.1").write_to(ca_file());
  const Client kept = client();
  const Answer answer = kept.get(kNodes);
  EXPECT_EQ(answer.outcome, Outcome::unreachable);
  EXPECT_THAT(answer.message, HasSubstr("is not trusted: self-signed certificate"));
  EXPECT_EQ(server_->request(), "");  // no token was sent
  directory_.write("ca.crt", good);
  EXPECT_TRUE(kept.get(kNodes).ok());
}

TEST_F(KubeClient, MissingCredentialsAreNotReplacedByOthers) {
  start();
  ::setenv("SSL_CERT_FILE", ca_file().c_str(), 1);
  const std::string good = directory_.read("ca.crt");
  for (const char* content : {"", "not PEM"}) {
    directory_.write("ca.crt", content);
    EXPECT_EQ(client().get(kNodes).outcome, Outcome::unreachable);
  }
  directory_.write("ca.crt", good);
  directory_.write("token", "");
  const Answer answer = client().get(kNodes);
  ::unsetenv("SSL_CERT_FILE");
  EXPECT_EQ(answer.outcome, Outcome::unreachable);
  EXPECT_THAT(answer.message, HasSubstr(directory_.in("token")));
  EXPECT_EQ(server_->request(), "");
}

TEST_F(KubeClient, ProxyVariablesAreIgnored) {
  start();
  for (const char* name : {"HTTPS_PROXY", "https_proxy", "ALL_PROXY"}) {
    ::setenv(name, "http://127.0.0.1:1", 1);
  }
  const Answer answer = client().get(kNodes);
  for (const char* name : {"HTTPS_PROXY", "https_proxy", "ALL_PROXY"}) ::unsetenv(name);
  EXPECT_TRUE(answer.ok()) << answer.message;
}

TEST_F(KubeClient, AnswerAboveTheLimitIsUnreachable) {
  start(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", kMaxAnswerBytes + 1, "{"));
  const Answer answer = client().get(kNodes);
  EXPECT_EQ(answer.outcome, Outcome::unreachable);
  EXPECT_THAT(answer.message, HasSubstr("body limit exceeded"));
}

TEST_F(KubeClient, AnswerOfFiveMegabytesIsReturned) {
  const std::string object =
      R"({"kind":"NodeList","items":[")" + std::string(5'000'000, 'x') + "\"]}";
  start(http_answer("200 OK", object));
  EXPECT_EQ(client().list(kNodes).body, object);
}

TEST_F(KubeClient, SilentServerIsUnreachableAfterTheTimeout) {
  const http::LocalListener silent;
  TestCertificate("IP:127.0.0.1").write_to(ca_file());
  const auto server =
      api_server_of_pod({"127.0.0.1", std::to_string(silent.port), directory_.path()});
  ASSERT_TRUE(server);
  const TimePoint began = BootClock::now();
  const Answer answer = Client(*server, milliseconds(30)).get(kNodes);
  EXPECT_EQ(answer.outcome, Outcome::unreachable);
  EXPECT_GE(BootClock::now() - began, milliseconds(30));
  EXPECT_LT(BootClock::now() - began, kTestTimeout);
}

}  // namespace
}  // namespace gpuyard::kube
