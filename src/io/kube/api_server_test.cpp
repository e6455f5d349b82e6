#include "io/kube/api_server.h"

#include <stdlib.h>

#include <gmock/gmock.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard::kube {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ApiServerOfPod, ServiceVariablesAndFilesAreUsed) {
  const auto server = api_server_of_pod({"10.96.0.1", "443"});
  ASSERT_TRUE(server) << server.error().message;
  EXPECT_EQ(server->origin, (http::Origin{true, "10.96.0.1", 443}));
  EXPECT_EQ(server->path_prefix, "");
  EXPECT_EQ(server->ca.file, "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt");
  EXPECT_EQ(server->token.file, "/var/run/secrets/kubernetes.io/serviceaccount/token");
}

TEST(ApiServerOfPod, Ipv6AddressIsReadWithAndWithoutBrackets) {
  for (const char* host : {"fd00:10:96::1", "[fd00:10:96::1]"}) {
    const auto server = api_server_of_pod({host, "6443"});
    ASSERT_TRUE(server) << server.error().message;
    EXPECT_EQ(server->origin, (http::Origin{true, "fd00:10:96::1", 6443}));
  }
}

TEST(ApiServerOfPod, OutsideAPodIsNotFound) {
  const auto server = api_server_of_pod({"", ""});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, Errc::not_found);
  EXPECT_THAT(server.error().message, HasSubstr("KUBERNETES_SERVICE_HOST is not set"));
}

TEST(ApiServerOfPod, MalformedAddressIsInvalid) {
  for (const auto& [host, port] :
       {std::pair{"10.96.0.1", ""}, std::pair{"10.96.0.1", "0"}, std::pair{"10.96.0.1", "70000"},
        std::pair{"a b", "443"}, std::pair{"10.96.0.1", "tcp://10.96.0.1:443"}}) {
    const auto server = api_server_of_pod({host, port});
    ASSERT_FALSE(server) << host << port;
    EXPECT_EQ(server.error().code, Errc::invalid);
  }
}

TEST(PodEnvironment, CurrentIsReadFromTheEnvironment) {
  ::setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
  ::setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  const PodEnvironment pod = PodEnvironment::current();
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  ::unsetenv("KUBERNETES_SERVICE_PORT");
  EXPECT_EQ(pod.host, "10.96.0.1");
  EXPECT_EQ(pod.port, "443");
  EXPECT_EQ(pod.directory, kServiceAccountDirectory);
}

class ReadCredentials : public testing::Test {
 protected:
  ReadCredentials() {
    directory_.write("ca.crt", "PEM\n");
    directory_.write("token", "abc.def\n");
    server_.ca.file = directory_.in("ca.crt");
    server_.token.file = directory_.in("token");
  }
  Error error() const {
    const auto credentials = read_credentials(server_);
    EXPECT_FALSE(credentials);
    return credentials ? Error{} : credentials.error();
  }

  ScratchDirectory directory_;
  ApiServer server_;
};

TEST_F(ReadCredentials, ReplacedFilesAreReadAnew) {
  EXPECT_EQ(read_credentials(server_)->token, "abc.def");
  EXPECT_EQ(read_credentials(server_)->ca_pem, "PEM");
  directory_.write("token", "ghi.jkl");
  directory_.write("ca.crt", "PEM 2");
  EXPECT_EQ(read_credentials(server_)->token, "ghi.jkl");
  EXPECT_EQ(read_credentials(server_)->ca_pem, "PEM 2");
}

TEST_F(ReadCredentials, FileOverridesText) {
  server_.token.text = "from-text";
  EXPECT_EQ(read_credentials(server_)->token, "abc.def");
  server_.token.file = "";
  EXPECT_EQ(read_credentials(server_)->token, "from-text");
}

TEST_F(ReadCredentials, NoCredentialIsNoError) {
  const auto credentials = read_credentials(ApiServer());
  ASSERT_TRUE(credentials);
  EXPECT_EQ(credentials->ca_pem, std::nullopt);
  EXPECT_EQ(credentials->token, "");
}

// Otherwise an empty CA file would stand for the system's certificates.
TEST_F(ReadCredentials, EmptyFileIsInvalid) {
  directory_.write("ca.crt", "\n");
  EXPECT_EQ(error(), (Error{Errc::invalid,
                            "the CA of the API server is empty: " + directory_.in("ca.crt")}));
  directory_.write("ca.crt", "PEM");
  directory_.write("token", "");
  EXPECT_EQ(error().code, Errc::invalid);
}

TEST_F(ReadCredentials, MissingFileIsNamed) {
  server_.token.file = directory_.in("missing");
  EXPECT_EQ(error().code, Errc::not_found);
  EXPECT_THAT(error().message,
              HasSubstr("the token for the API server: opening " + directory_.in("missing")));
}

TEST_F(ReadCredentials, TokenOfTwoLinesIsInvalidAndNotRepeated) {
  directory_.write("token", "secret1\nX-Injected: secret2");
  EXPECT_EQ(error().code, Errc::invalid);
  EXPECT_THAT(error().message, Not(HasSubstr("secret")));
}

TEST_F(ReadCredentials, OversizedTokenIsRefused) {
  directory_.write("token", std::string(70'000, 'x'));
  EXPECT_THAT(error().message, Not(HasSubstr("xx")));
}

}  // namespace
}  // namespace gpuyard::kube
