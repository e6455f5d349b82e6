#include "io/http/endpoint.h"

#include <gtest/gtest.h>

namespace gpuyard::http {
namespace {

TEST(ParseEndpoint, TakesTheUrlThatTheDaemonPrints) {
  EXPECT_EQ(*parse_endpoint("http://127.0.0.1:9410"), Endpoint::tcp("127.0.0.1", 9410));
  EXPECT_EQ(*parse_endpoint("http://[::1]:9410/"), Endpoint::tcp("::1", 9410));
  EXPECT_FALSE(parse_endpoint("http://127.0.0.1:9410/metrics"));
}

TEST(ParseEndpoint, TextFormRoundTrips) {
  for (const char* text :
       {"127.0.0.1:9410", "[::1]:9410", "0.0.0.0:0", "/run/gpuyard/gpuyard.sock"}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_TRUE(endpoint) << text;
    EXPECT_EQ(endpoint->text(), text);
  }
}

TEST(ParseEndpoint, TakesASocketWithItsScheme) {
  const auto endpoint = parse_endpoint("unix:a.sock");
  ASSERT_TRUE(endpoint);
  EXPECT_EQ(*endpoint, Endpoint::unix_socket("a.sock"));
}

TEST(ParseEndpoint, RefusesNamesAndNonsense) {
  for (const char* text : {"", "localhost:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
                           "::1:80", "[::1]", "127.0.0.1:-1", ":80", "127.0.0.1:80x", "unix:"}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error().code, Errc::invalid);
  }
}

TEST(ParseEndpoint, NamesTheLimitOfASocketsPath) {
  EXPECT_TRUE(parse_endpoint("/" + std::string(kMaxUnixPath - 1, 'a')));
  const auto endpoint = parse_endpoint("/" + std::string(kMaxUnixPath, 'a'));
  ASSERT_FALSE(endpoint);
  EXPECT_NE(endpoint.error().message.find("107"), std::string::npos);
}

TEST(SocketAddress, ComesBackAsTheSameEndpoint) {
  for (const char* text : {"127.0.0.1:9410", "[fe80::1]:1", "/run/a.sock"}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_TRUE(endpoint);
    const auto address = to_socket_address(*endpoint);
    ASSERT_TRUE(address);
    EXPECT_EQ(from_socket_address(*address), *endpoint);
  }
}

}  // namespace
}  // namespace gpuyard::http
