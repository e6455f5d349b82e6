#include "io/http/session_for_tests.h"

namespace gpuyard::http {
namespace {

using testing::StartsWith;

using Refusal = SessionTest;

TEST_F(Refusal, OversizedExpectContinueGets413) {
  expect_refused(
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000\r\nExpect: 100-continue\r\n\r\n",
      413, "body_too_large");
  EXPECT_TRUE(paths_.empty());
}

TEST_F(Refusal, RefusesAnotherExpectation) {
  expect_refused("GET / HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\n\r\n", 417,
                 "unsupported");
}

TEST_F(Refusal, RefusesAChunkedBodyOnceItsSumIsTooLarge) {
  std::string request = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string chunk = "4000\r\n" + std::string(0x4000, 'x') + "\r\n";
  for (int i = 0; i < 5; ++i) request += chunk;
  expect_refused(request, 413, "body_too_large");
}

TEST_F(Refusal, RefusesALongHeader) {
  expect_refused("GET / HTTP/1.1\r\nX: " + std::string(17'000, 'x'), 431, "header_too_large");
}

TEST_F(Refusal, ManySmallHeaderFieldsGet431) {
  exchange("GET / HTTP/1.1\r\nHost: localhost\r\n");
  std::string response;
  for (int i = 0; i < 1000 && response.empty(); ++i) {
    response = exchange("X-Field: 0123456789abcdef\r\n");
  }
  EXPECT_THAT(response, StartsWith("HTTP/1.1 431 "));
}

TEST_F(Refusal, RefusesALongTarget) {
  expect_refused("GET /" + std::string(5000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 414,
                 "target_too_large");
}

TEST_F(Refusal, RefusesATargetThatNeverEnds) {
  expect_refused("GET /" + std::string(20'000, 'x'), 414, "target_too_large");
}

TEST_F(Refusal, RefusesAChunkExtensionThatNeverEnds) {
  exchange("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  expect_refused("1;" + std::string(20'000, 'x'), 400, "invalid");
}

class MalformedRequest : public SessionTest, public testing::WithParamInterface<const char*> {};

TEST_P(MalformedRequest, IsRefusedAndEndsTheConnection) {
  expect_refused(GetParam(), 400, "invalid");
  EXPECT_EQ(context_->counters.requests, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Refusal, MalformedRequest,
    testing::Values(
        "nonsense\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        "GET relative HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET http:///a HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET http://localhost@evil/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET ftp://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /a#b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", "GET / http/1.1\r\nHost: localhost\r\n\r\n",
        "GET /  HTTP/1.1\r\nHost: localhost\r\n\r\n", "G@T / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\nHost: localhost\n\n\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: a\nY: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX Y: a\r\n\r\n",
        "GET /a/../b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /%2e%2E/b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /%4 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /?a=%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1, 2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1,1\r\n\r\nx",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length:\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Length: 18446744073709551617\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        "Content-Length: 3\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
        "Transfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        "Transfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        "11111111111111111\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2\r\nabXX0\r\n\r\n"));

TEST_F(Refusal, RefusesATransferEncodingItDoesNotKnow) {
  expect_refused("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                 501, "unsupported");
}

TEST_F(Refusal, ForeignHostGets421AndCloses) {
  expect_refused("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "misdirected");
  EXPECT_TRUE(paths_.empty());
}

// If one reader of a request sees a transfer encoding and the other does not, one of them takes the
// rest for a request of its own.
TEST_F(Refusal, AmbiguousTransferEncodingGets501) {
  for (const char* value : {"xchunked", "chunked, identity", "identity", "\"chunked\"", ""}) {
    start(Limits());
    expect_refused("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " +
                       std::string(value) + "\r\n\r\n",
                   501, "unsupported");
  }
}

TEST_F(Refusal, BelievesTheTargetsHostRatherThanTheField) {
  expect_refused("GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 421,
                 "misdirected");
}

TEST_F(Refusal, SkipsSoManyEmptyLinesAndNoMore) {
  std::string lines;
  for (std::size_t i = 0; i < context_->limits.empty_lines; ++i) lines += "\r\n";
  EXPECT_EQ(exchange(lines + std::string(kGet)), kHello);
  EXPECT_EQ(exchange(lines + std::string(kGet)), kHello);
  expect_refused(lines + "\r\n", 400, "invalid");
}

TEST_F(Refusal, AllowsNoOtherOriginToRead) {
  const std::string response = exchange(
      "OPTIONS /a HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n"
      "Access-Control-Request-Method: PUT\r\n\r\n");
  EXPECT_THAT(response, testing::Not(testing::HasSubstr("Access-Control")));
}

TEST_F(Refusal, AcceptsAConfiguredName) {
  context_->allowed_hosts = {"node7.example"};
  EXPECT_EQ(exchange("GET / HTTP/1.1\r\nHost: Node7.example:9410\r\n\r\n"), kHello);
}

}  // namespace
}  // namespace gpuyard::http
