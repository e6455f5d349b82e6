#include "io/kube/answer.h"

#include <gmock/gmock.h>

namespace gpuyard::kube {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

http::ClientResponse response(int status, std::string body,
                              std::vector<http::Header> headers = {}) {
  return {.status = status, .headers = std::move(headers), .body = std::move(body)};
}

std::string status_object(const std::string& reason, const std::string& message) {
  return R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":")" +
         message + R"(","reason":")" + reason + R"(","code":0})";
}

TEST(Answer, SuccessHasItsBody) {
  const std::string node = R"({"kind":"Node","metadata":{"name":"n1"}})";
  for (const int status : {200, 201, 202}) {
    const Answer answer = to_answer("api:6443", response(status, node));
    EXPECT_TRUE(answer.ok());
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(answer.body, node);
    EXPECT_EQ(answer.message, "");
  }
}

TEST(Answer, EachRefusalHasItsOutcome) {
  struct Case {
    int status;
    const char* reason;
    Outcome outcome;
  };
  for (const Case& one : {
           Case{400, "BadRequest", Outcome::rejected},
           Case{401, "Unauthorized", Outcome::unauthorized},
           Case{403, "Forbidden", Outcome::forbidden},
           Case{404, "NotFound", Outcome::absent},
           Case{405, "MethodNotAllowed", Outcome::rejected},
           Case{409, "Conflict", Outcome::conflict},
           Case{409, "AlreadyExists", Outcome::already_exists},
           Case{409, "", Outcome::conflict},
           Case{410, "Expired", Outcome::gone},
           Case{422, "Invalid", Outcome::rejected},
           Case{429, "TooManyRequests", Outcome::throttled},
           Case{500, "InternalError", Outcome::server_error},
           Case{503, "ServiceUnavailable", Outcome::server_error},
           Case{504, "Timeout", Outcome::server_error},
       }) {
    const Answer answer =
        to_answer("api:6443", response(one.status, status_object(one.reason, "because")));
    EXPECT_EQ(answer.outcome, one.outcome) << one.status << one.reason;
    EXPECT_EQ(answer.reason, one.reason);
    EXPECT_EQ(answer.message,
              "api:6443 responded with " + std::to_string(one.status) + ": because");
    EXPECT_EQ(answer.body, "");
    EXPECT_EQ(answer.retry_after, std::nullopt);
  }
}

TEST(Answer, RetryAfterIsReadInSeconds) {
  const Answer throttled = to_answer("api", response(429, "", {{"Retry-After", "7"}}));
  EXPECT_EQ(throttled.outcome, Outcome::throttled);
  EXPECT_EQ(throttled.retry_after, seconds(7));
  const Answer starting = to_answer("api", response(503, "", {{"retry-after", "1"}}));
  EXPECT_EQ(starting.outcome, Outcome::throttled);
  EXPECT_EQ(starting.retry_after, seconds(1));
  for (const char* other : {"-1", "soon", "Sat, 28 Nov 2026 00:00:00 GMT", "99999999999"}) {
    EXPECT_EQ(to_answer("api", response(429, "", {{"Retry-After", other}})).retry_after,
              std::nullopt);
  }
}

// The group resource.k8s.io of an older cluster, for example.
TEST(Answer, MissingApiHasNoReason) {
  const Answer answer = to_answer("api", response(404, "404 page not found\n"));
  EXPECT_EQ(answer.outcome, Outcome::absent);
  EXPECT_EQ(answer.reason, "");
  EXPECT_EQ(answer.message, "api responded with 404: 404 page not found");
}

TEST(Answer, SuccessWithoutAnObjectIsMalformed) {
  for (const char* body : {"", "<html>", "[]", "null", R"({"kind":"Node")", R"({"kind":1})"}) {
    const Answer answer = to_answer("api", response(200, body));
    EXPECT_EQ(answer.outcome, Outcome::malformed) << body;
    EXPECT_EQ(answer.body, "");
    EXPECT_THAT(answer.message, HasSubstr("api responded with 200, but not with a JSON object"));
  }
}

TEST(Answer, RedirectIsMalformed) {
  EXPECT_EQ(to_answer("api", response(302, "")).outcome, Outcome::malformed);
  EXPECT_EQ(to_answer("api", response(101, "")).outcome, Outcome::malformed);
}

TEST(Answer, LostConnectionIsUnreachable) {
  const Answer answer = to_answer("api", Error{Errc::timed_out, "no response from api in time"});
  EXPECT_EQ(answer.outcome, Outcome::unreachable);
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(answer.message, "no response from api in time");
}

TEST(Answer, MessageIsShortAndPrintable) {
  const Answer answer = to_answer("api", response(403, "\x1b[31m" + std::string(5000, 'x')));
  EXPECT_LT(answer.message.size(), 1100U);
  EXPECT_EQ(answer.message.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace gpuyard::kube
