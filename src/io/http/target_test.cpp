#include "http/target.h"

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

TEST(DecodeTarget, RefusesWhatClimbsHoweverItIsWritten) {
  for (const char* target : {"/..", "/a/..", "/../a", "/%2e%2e/a", "/a%2f..%2fb", "*", "", "a"}) {
    Request request;
    request.target = target;
    EXPECT_FALSE(decode_target(request)) << target;
  }
}

}  // namespace
}  // namespace gpuyard::http
