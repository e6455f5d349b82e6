#include "io/http/request_parser.h"

#include <gtest/gtest.h>

namespace gpuyard::http {
namespace {

TEST(RequestParser, LeavesTheNextRequestsBytesAlone) {
  const Limits limits;
  RequestParser parser(limits);
  const std::string first = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nb";
  EXPECT_EQ(parser.feed(first + "GET /"), first.size());
  EXPECT_TRUE(parser.is_complete());
  EXPECT_EQ(parser.take().body, "b");
}

TEST(RequestParser, HoldsTheHeaderLimitWhereverItsBytesAreCut) {
  const Limits limits{.header_bytes = 200};
  for (std::size_t cut = 1; cut < 60; ++cut) {
    RequestParser parser(limits);
    std::string pending;
    std::string text = "GET / HTTP/1.1\r\nHost: x\r\n";
    for (int i = 0; i < 40; ++i) text += "A: 1234567890\r\n";
    text += "\r\n";
    for (std::size_t at = 0; at < text.size() && !parser.refusal(); at += cut) {
      pending += text.substr(at, cut);
      pending.erase(0, parser.feed(pending));
    }
    ASSERT_TRUE(parser.refusal()) << cut;
    EXPECT_EQ(parser.refusal()->status, 431);
  }
}

TEST(RequestParser, NeedsMoreUntilTheHeaderEnds) {
  const Limits limits;
  RequestParser parser(limits);
  EXPECT_EQ(parser.feed("GET / HT"), 0U);
  EXPECT_FALSE(parser.is_header_complete());
  EXPECT_FALSE(parser.is_complete());
  EXPECT_FALSE(parser.refusal());
}

TEST(RequestParser, CallsAnUnknownMethodOther) {
  const Limits limits;
  RequestParser parser(limits);
  parser.feed("BREW / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(parser.is_complete());
  EXPECT_EQ(parser.take().method, Method::other);
}

}  // namespace
}  // namespace gpuyard::http
