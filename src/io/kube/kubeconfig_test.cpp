#include "io/kube/kubeconfig.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/base64.h"
#include "base/scratch_directory_for_tests.h"

namespace gpuyard::kube {
namespace {

using testing::HasSubstr;

// As `kubectl config view --raw --minify -o json` prints it.
std::string kubeconfig(const std::string& cluster, const std::string& user) {
  return R"({"kind":"Config","apiVersion":"v1","preferences":{},)"
         R"("clusters":[{"name":"other","cluster":{"server":"https://other"}},)"
         R"({"name":"prod","cluster":)" +
         cluster + R"(}],"users":[{"name":"agent","user":)" + user +
         R"(}],"contexts":[{"name":"main","context":{"cluster":"prod","user":"agent"}}],)"
         R"("current-context":"main"})";
}

constexpr const char* kServer = R"({"server":"https://10.0.0.1:6443"})";
constexpr const char* kToken = R"({"token":"abc.def"})";

Error error_of(const std::string& text) {
  const auto server = parse_kubeconfig(text, "/etc/kube/config");
  EXPECT_FALSE(server) << text;
  return server ? Error{} : server.error();
}

TEST(Kubeconfig, CurrentContextIsRead) {
  const auto server = parse_kubeconfig(
      kubeconfig(
          R"({"server":"https://api.example:6443/k8s/clusters/c1/","certificate-authority-data":")" +
              encode_base64("PEM\n") + R"("})",
          kToken),
      "/etc/kube/config");
  ASSERT_TRUE(server) << server.error().message;
  EXPECT_EQ(server->origin, (http::Origin{true, "api.example", 6443}));
  EXPECT_EQ(server->path_prefix, "/k8s/clusters/c1");
  EXPECT_EQ(server->ca, (Credential{.text = "PEM\n"}));
  EXPECT_EQ(server->token, (Credential{.text = "abc.def"}));
}

TEST(Kubeconfig, RelativeFilesBeginAtItsDirectory) {
  const auto server = parse_kubeconfig(
      kubeconfig(R"({"server":"https://[fd00::1]","certificate-authority":"pki/ca.crt"})",
                 R"({"tokenFile":"/run/token"})"),
      "/etc/kube/config");
  ASSERT_TRUE(server) << server.error().message;
  EXPECT_EQ(server->origin, (http::Origin{true, "fd00::1", 443}));
  EXPECT_EQ(server->ca, (Credential{.file = "/etc/kube/pki/ca.crt"}));
  EXPECT_EQ(server->token, (Credential{.file = "/run/token"}));
}

TEST(Kubeconfig, WithoutACaTheSystemsIsTrusted) {
  const auto server = parse_kubeconfig(kubeconfig(kServer, kToken), "config");
  ASSERT_TRUE(server) << server.error().message;
  EXPECT_TRUE(server->ca.empty());
}

TEST(Kubeconfig, UnsupportedKeyIsRefusedByName) {
  for (const std::string key :
       {"exec", "auth-provider", "client-certificate", "client-certificate-data", "client-key",
        "client-key-data", "username", "password", "as", "as-uid", "as-groups", "as-user-extra"}) {
    const Error error = error_of(kubeconfig(
        kServer, R"({"token":"abc","tokenFile":"","exec":null,")" + key + R"(":["x"]})"));
    EXPECT_EQ(error.code, Errc::invalid);
    EXPECT_THAT(error.message, HasSubstr("/etc/kube/config: user \"agent\" has " + key +
                                         ", which gpuyard does not support; set tokenFile to "));
  }
  for (const auto& [key, value] : {std::pair{"insecure-skip-tls-verify", "true"},
                                   std::pair{"proxy-url", "\"http://proxy:3128\""},
                                   std::pair{"tls-server-name", "\"kubernetes\""}}) {
    const Error error = error_of(
        kubeconfig(fmt::format(R"({{"server":"https://10.0.0.1","{}":{}}})", key, value), kToken));
    EXPECT_THAT(error.message, HasSubstr(std::string("cluster \"prod\" has ") + key +
                                         ", which gpuyard does not support; set "));
  }
}

TEST(Kubeconfig, EmptyUnsupportedKeyIsIgnored) {
  const auto server = parse_kubeconfig(
      kubeconfig(R"({"server":"https://a","insecure-skip-tls-verify":false,"proxy-url":""})",
                 R"({"token":"abc","exec":null,"as-groups":[],"client-key":""})"),
      "config");
  EXPECT_TRUE(server) << server.error().message;
}

TEST(Kubeconfig, YamlErrorNamesTheConversion) {
  const Error error = error_of("apiVersion: v1\nkind: Config\n");
  EXPECT_EQ(error.code, Errc::invalid);
  EXPECT_EQ(error.message,
            "/etc/kube/config: expected a kubeconfig in JSON, the part of YAML that gpuyard reads");
  EXPECT_EQ(error.hint,
            "umask 077\nkubectl --kubeconfig /etc/kube/config config view --raw --minify --flatten "
            "-o json > "
            "/etc/kube/config.json");
  EXPECT_EQ(error_of("[]").message, error.message);
}

TEST(Kubeconfig, MissingEntryIsNamed) {
  EXPECT_THAT(error_of("{}").message, HasSubstr("current-context is not set"));
  EXPECT_THAT(error_of(R"({"current-context":"main","contexts":null})").message,
              HasSubstr("context \"main\" not found"));
  EXPECT_THAT(
      error_of(R"({"current-context":"a","contexts":[{"name":"a","context":{"cluster":"b"}}]})")
          .message,
      HasSubstr("cluster \"b\" not found"));
  EXPECT_THAT(error_of(kubeconfig(kServer, "null")).message, HasSubstr("user \"agent\" not found"));
  EXPECT_THAT(error_of(kubeconfig(kServer, "{}")).message,
              HasSubstr("user \"agent\" has no token; set tokenFile to"));
}

TEST(Kubeconfig, MalformedServerIsInvalid) {
  for (const char* url : {"", "10.0.0.1:6443", "https://", "https://a b", "https://a?x=1",
                          "https://user@a", "ftp://a", "https://a:0"}) {
    const Error error = error_of(kubeconfig(fmt::format(R"({{"server":"{}"}})", url), kToken));
    EXPECT_THAT(error.message, HasSubstr("server: expected a URL such as")) << url;
  }
}

// `kubectl proxy` adds the credentials, so that a token would have no use.
TEST(Kubeconfig, PlainTextIsForThisMachineAndWithoutAToken) {
  for (const char* host : {"127.0.0.1:8001", "localhost:8001", "[::1]:8001"}) {
    const auto server = parse_kubeconfig(
        kubeconfig(fmt::format(R"({{"server":"http://{}"}})", host), kToken), "config");
    ASSERT_TRUE(server) << server.error().message;
    EXPECT_FALSE(server->origin.tls);
    EXPECT_TRUE(server->token.empty());
  }
  EXPECT_THAT(error_of(kubeconfig(R"({"server":"http://10.0.0.1"})", kToken)).message,
              HasSubstr("is another machine without TLS"));
}

TEST(Kubeconfig, DamagedCaDataIsInvalid) {
  EXPECT_THAT(
      error_of(
          kubeconfig(R"({"server":"https://a","certificate-authority-data":"-----BEGIN"})", kToken))
          .message,
      HasSubstr("certificate-authority-data is not base64"));
}

TEST(Kubeconfig, CredentialThatIsNoStringIsInvalid) {
  EXPECT_THAT(
      error_of(kubeconfig(R"({"server":"https://a","certificate-authority":["ca.crt"]})", kToken))
          .message,
      HasSubstr("cluster \"prod\" has certificate-authority, which is not a string"));
  EXPECT_THAT(error_of(kubeconfig(kServer, R"({"token":"abc","tokenFile":7})")).message,
              HasSubstr("user \"agent\" has tokenFile, which is not a string"));
}

TEST(Kubeconfig, FileIsReadFromDisk) {
  const ScratchDirectory directory;
  const auto server = read_kubeconfig(directory.write("config", kubeconfig(kServer, kToken)));
  EXPECT_TRUE(server) << server.error().message;
  const auto missing = read_kubeconfig(directory.in("missing"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::not_found);
}

}  // namespace
}  // namespace gpuyard::kube
