#include "faces/client/daemon_client.h"

#include <gtest/gtest.h>

namespace gpuyard::client {
namespace {

TEST(ReadableMessage, PlaceInBodyIsItsField) {
  EXPECT_EQ(readable_message("body: /among: GPU index 99 is out of range"),
            "among: GPU \"99\" not found");
  EXPECT_EQ(readable_message("/gpus/0: names a GPU twice"), "gpus: names a GPU twice");
  EXPECT_EQ(readable_message("body: /among/0: must be a text; /among/1: must be a text"),
            "among: must be a text; among: must be a text");
  EXPECT_EQ(readable_message("body: /wait_s: must be a number"), "wait_s: must be a number");
}

TEST(ReadableMessage, OtherMessageStaysAsItIs) {
  for (const char* message :
       {"", "no daemon runs here", "/run/gpuyard/gpuyard.sock: Permission denied",
        "/tmp: No space left on device", "body: /: must be an object",
        "parameter since: must be a number", "opening /a/b: No such file or directory"}) {
    EXPECT_EQ(readable_message(message), message);
  }
}

TEST(ErrorOf, NamesTheFieldAndNotItsPlace) {
  const Error error = error_of(
      {400,
       {},
       R"({"error":{"code":"invalid","message":"body: /among: GPU index 99 is out of range"}})"});
  EXPECT_EQ(error.code, Errc::invalid);
  EXPECT_EQ(error.message, "among: GPU \"99\" not found");
}

TEST(ErrorOf, HintIsRemovedFromMessageEnd) {
  const Error sent{Errc::denied, "no scope", "no group", "usermod x  # as root\nlogin"};
  const http::Response response = http::error_response(sent);
  const Error error = error_of({response.status, {}, *response.body});
  EXPECT_EQ(error, (Error{Errc::denied, "no scope: no group"}));
  EXPECT_EQ(error.hint, sent.hint);
  EXPECT_EQ(error.text(), sent.text());
}

TEST(ErrorOf, MessageWithoutHintIsUnchanged) {
  const std::string whole = R"({"error":{"code":"denied","message":"no; try `x`"}})";
  const Error error = error_of({403, {}, whole});
  EXPECT_EQ(error.message, "no; try `x`");
  EXPECT_EQ(error.hint, "");
}

TEST(ErrorOf, HintNotAtMessageEndIsIgnored) {
  const std::string body = R"({"error":{"code":"denied","message":"no","hint":"x"}})";
  const Error error = error_of({403, {}, body});
  EXPECT_EQ(error.text(), "no");
}

TEST(ErrorOf, AMissingTokenIsDenied) {
  const std::string body = R"({"error":{"code":"unauthenticated","message":"no token"}})";
  EXPECT_EQ(error_of({401, {}, body}), (Error{Errc::denied, "no token"}));
}

TEST(ErrorOf, ProxyErrorPageBecomesItsStatus) {
  const Error error =
      error_of({504, {}, "\n<html><body><h1>504 Gateway Time-out</h1></body></html>"});
  EXPECT_EQ(error.code, Errc::timed_out);
  EXPECT_EQ(error.message, "status 504 from a proxy or another server");
  EXPECT_EQ(error_of({504, {}, "no answer"}).message, "no answer");
}

TEST(ErrorOf, RedirectNamesTargetAndNextStep) {
  http::ClientResponse moved;
  moved.status = 302;
  moved.headers = {{"Location", "https://elsewhere/login"}};
  const Error error = error_of(moved);
  EXPECT_EQ(error.code, Errc::invalid);
  EXPECT_FALSE(is_transient(error));
  EXPECT_NE(error.message.find("https://elsewhere/login"), std::string::npos) << error.message;
  EXPECT_NE(error.cause.find("use the daemon's own address"), std::string::npos);
}

constexpr Duration kSecond = std::chrono::seconds(1);

http::ClientResponse refusal(const std::string& code, std::vector<http::Header> fields,
                             int status = 503) {
  return {status, std::move(fields), R"({"error":{"code":")" + code + R"(","message":"no"}})"};
}

TEST(RetryDelay, LoadingDaemonIsRetriedForThirtySeconds) {
  const auto reads = refusal("unavailable", {{"Retry-After", "1"}, {"X-Gpuyard-Reading", "true"}});
  EXPECT_EQ(retry_delay(reads, 0, {}), kSecond);
  EXPECT_EQ(retry_delay(reads, 29, 29 * kSecond), kSecond);
  EXPECT_EQ(retry_delay(reads, 30, 30 * kSecond), std::nullopt);
}

TEST(RetryDelay, ExceededQuotaIsRetriedThreeTimes) {
  for (const int status : {503, 429}) {
    const auto over = refusal("busy", {{"Retry-After", "1"}}, status);
    EXPECT_EQ(retry_delay(over, 0, {}), kSecond);
    EXPECT_EQ(retry_delay(over, 2, 2 * kSecond), kSecond);
    EXPECT_EQ(retry_delay(over, 3, 3 * kSecond), std::nullopt);
    EXPECT_EQ(retry_delay(over, 1, 5 * kSecond), std::nullopt);
  }
  EXPECT_EQ(retry_delay(refusal("busy", {{"Retry-After", "6"}}), 0, {}), std::nullopt);
  EXPECT_EQ(retry_delay(refusal("busy", {{"Retry-After", "0"}}), 0, {}), kSecond / 10);
  EXPECT_EQ(retry_delay(refusal("busy", {}), 0, {}), std::nullopt);
}

TEST(RetryDelay, OtherErrorCodesAreNotRetried) {
  for (const char* code : {"unavailable", "timed_out", "conflict"}) {
    EXPECT_EQ(retry_delay(refusal(code, {{"Retry-After", "1"}}), 0, {}), std::nullopt) << code;
  }
}

}  // namespace
}  // namespace gpuyard::client
