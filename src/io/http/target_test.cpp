#include "io/http/target.h"

#include <gtest/gtest.h>

namespace gpuyard::http {
namespace {

TEST(PercentDecode, DecodesOnceAndLeavesPlus) {
  EXPECT_EQ(percent_decode("a%20b+c"), "a b+c");
  EXPECT_EQ(percent_decode("%2541"), "%41");
  EXPECT_EQ(percent_decode("%C3%a9"), "\xC3\xA9");
}

TEST(PercentDecode, RefusesBrokenEscapesAndControlCharacters) {
  for (const char* text : {"%", "%4", "%4g", "a%", "%00", "%0a", "%7f"}) {
    EXPECT_EQ(percent_decode(text), std::nullopt) << text;
  }
}

TEST(PercentEncode, EncodesAllButUnreservedCharacters) {
  EXPECT_EQ(percent_encode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encode("a/b?c=d e%\n\xC3\xA9"), "a%2Fb%3Fc%3Dd%20e%25%0A%C3%A9");
}

Request decoded(std::string target) {
  Request request;
  request.target = std::move(target);
  EXPECT_TRUE(decode_target(request)) << request.target;
  return request;
}

TEST(DecodeTarget, SplitsThePathFromTheQuery) {
  const Request request = decoded("/devices/0000:01:00.0?a=1&&b=%3D&c&=d?");
  EXPECT_EQ(request.path, "/devices/0000:01:00.0");
  const std::vector<std::pair<std::string, std::string>> query = {
      {"a", "1"}, {"b", "="}, {"c", ""}, {"", "d?"}};
  EXPECT_EQ(request.query, query);
}

TEST(DecodeTarget, AllowsDotsThatDoNotClimb) {
  EXPECT_EQ(decoded("/a..b/...").path, "/a..b/...");
}

TEST(DecodeTarget, PathTraversalIsRefusedInAnyEncoding) {
  for (const char* target : {"/..", "/a/..", "/../a", "/%2e%2e/a", "/a%2f..%2fb", "*", "", "a"}) {
    Request request;
    request.target = target;
    EXPECT_FALSE(decode_target(request)) << target;
  }
}

}  // namespace

namespace {

TEST(IsHostAllowed, LoopbackNameIsAcceptedOnAnyAddress) {
  for (const char* host : {"localhost", "LocalHost:9410", "localhost.", "127.0.0.1", "127.8.9.10:1",
                           "[::1]", "[::1]:9410", "[0:0:0:0:0:0:0:1]"}) {
    EXPECT_TRUE(is_host_allowed(host, "10.0.0.1", {})) << host;
  }
}

TEST(IsHostAllowed, TakesTheAddressThatWasConnectedTo) {
  EXPECT_TRUE(is_host_allowed("10.0.0.1:9410", "10.0.0.1", {}));
  EXPECT_TRUE(is_host_allowed("[FE80::0:1]", "fe80::1", {}));
  EXPECT_FALSE(is_host_allowed("10.0.0.2", "10.0.0.1", {}));
}

TEST(IsHostAllowed, TakesConfiguredNames) {
  EXPECT_TRUE(is_host_allowed("Node7.example:80", "10.0.0.1", {"node7.Example"}));
  EXPECT_FALSE(is_host_allowed("node77.example", "10.0.0.1", {"node7.example"}));
}

TEST(IsHostAllowed, RefusesForeignNamesAndNonsense) {
  for (const char* host : {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                           "localhost:x", "[::1", "[::1]x", "a b", "127.1:"}) {
    EXPECT_FALSE(is_host_allowed(host, "10.0.0.1", {"good"})) << host;
  }
}

}  // namespace
}  // namespace gpuyard::http
