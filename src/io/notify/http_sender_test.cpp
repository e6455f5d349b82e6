#include "io/notify/http_sender.h"

#include <stdlib.h>

#include <gmock/gmock.h>

#include "base/captured_log_for_tests.h"
#include "base/json_writer.h"
#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/poll_loop_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/notify/notification_for_tests.h"
#include "io/notify/sink_dispatcher.h"

namespace gpuyard::notify {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Answer = Result<http::ClientResponse>;

SinkConfig webhook() {
  SinkConfig sink;
  sink.name = "a";
  sink.kind = SinkKind::webhook;
  sink.url = *parse_url("https://me:pa55word@example.org/s3cret-path?token=t0ken-in-query");
  sink.key = Secret("k3y-of-signature");
  sink.authorization = Secret("Basic bWU6cGE1NXdvcmQ=");
  return sink;
}

http::ClientResponse response(int status, std::string body = "",
                              std::vector<http::Header> headers = {}) {
  return {status, std::move(headers), std::move(body)};
}

TEST(ClassifyResponse, OfTheTwoHundredsIsTaken) {
  for (const int status : {200, 202, 204}) {
    EXPECT_EQ(classify_response(webhook(), response(status)).kind, SendResult::Kind::delivered)
        << status;
  }
}

TEST(ClassifyResponse, TransientFailureIsRetried) {
  for (const int status : {408, 425, 429, 500, 502, 503, 504}) {
    const auto outcome = classify_response(webhook(), response(status));
    EXPECT_EQ(outcome.kind, SendResult::Kind::retry) << status;
    EXPECT_THAT(outcome.reason, HasSubstr("example.org responded with " + std::to_string(status)));
  }
  const auto silence =
      classify_response(webhook(), Error{Errc::timed_out, "no response from example.org in time"});
  EXPECT_EQ(silence.kind, SendResult::Kind::retry);
  EXPECT_EQ(silence.reason, "no response from example.org in time");
}

TEST(ClassifyResponse, PermanentFailureIsRejected) {
  for (const int status : {301, 302, 400, 401, 403, 404, 410, 413}) {
    EXPECT_EQ(classify_response(webhook(), response(status)).kind, SendResult::Kind::rejected)
        << status;
  }
  EXPECT_EQ(classify_response(webhook(), response(400, "invalid_payload\n")).reason,
            "example.org responded with 400: invalid_payload");
}

TEST(ClassifyResponse, RetryAfterSecondsIsHonoured) {
  const auto asked = [](const char* text) {
    return classify_response(webhook(), response(429, "", {{"Retry-After", text}})).retry_after;
  };
  EXPECT_EQ(asked("30"), seconds(30));
  for (const char* text :
       {"", "-1", "soon", "30 s", "Wed, 21 Oct 2026 07:28:00 GMT", "99999999999"}) {
    EXPECT_EQ(asked(text), std::nullopt) << text;
  }
}

TEST(ClassifyResponse, ExplanationWithSecretIsOmitted) {
  for (const char* echo :
       {"no route /s3cret-path", "token=t0ken-in-query is bad", "me:pa55word?",
        "signed with k3y-of-signature", "unknown Basic bWU6cGE1NXdvcmQ=", "...n-in-quer..."}) {
    EXPECT_EQ(classify_response(webhook(), response(401, echo)).reason,
              "example.org responded with 401")
        << echo;
  }
  EXPECT_EQ(classify_response(webhook(), response(400, "\x1B[2Jno such\nfield ")).reason,
            "example.org responded with 400: ?[2Jno such?field");
}

TEST(ClassifyResponse, EchoedSecretIsOmittedFromError) {
  ScratchDirectory directory;
  const std::string file = directory.write("secret", "pa55");
  for (const std::string& how :
       {"url = \"https://h\"\nusername = \"me\"\npassword_file = \"" + file + "\"\n",
        "url = \"https://h\"\nbearer_token_file = \"" + file + "\"\n",
        std::string("url = \"https://me:pa%355@h\"\n"),
        std::string("url = \"https://pa55@h\"\n")}) {
    const auto sinks = read_sinks("[sink.a]\nkind = \"webhook\"\n" + how, "alerts.toml");
    ASSERT_TRUE(sinks) << sinks.error().message;
    EXPECT_EQ(classify_response(sinks->front(), response(401, "pa55 is wrong")).reason,
              "h responded with 401")
        << how;
    EXPECT_EQ(classify_response(sinks->front(), response(401, "me? no")).reason,
              "h responded with 401: me? no")
        << how;
  }
}

// A sender whose requests reach no receiver, on a worker moved by hand.
struct HttpSenderFixture {
  explicit HttpSenderFixture(Fetch fetch) {
    auto made = std::make_unique<ManualWorker>();
    worker = made.get();
    sender = std::make_unique<HttpSender>(loop, webhook(), std::move(made), std::move(fetch));
  }

  void send() {
    sender->send({hot_gpu()},
                 [this](SendResult outcome) { results.push_back(std::move(outcome)); });
  }

  ManualLoop loop;
  ManualWorker* worker = nullptr;
  std::unique_ptr<HttpSender> sender;
  std::vector<SendResult> results;
};

// A variable of the environment for as long as this lives.
class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_.c_str()); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  std::string name_;
};

std::string timeout_reason() {
  HttpSenderFixture wired([](const http::Origin&, const http::ClientRequest&, Duration) {
    return Answer(Error{Errc::timed_out, "no response from example.org in time"});
  });
  wired.send();
  wired.worker->run_all();
  wired.loop.run_posted();
  return wired.results.empty() ? "nothing" : wired.results[0].reason;
}

TEST(HttpSender, SaysThatAProxyIsSetAndNotUsed) {
  EXPECT_EQ(timeout_reason(), "no response from example.org in time");
  {
    const Variable set("https_proxy", "http://me:pa55word@127.0.0.1:3128");
    EXPECT_EQ(timeout_reason(),
              "no response from example.org in time; https_proxy is set but not used: to "
              "connect through a proxy, set proxy in [sink.a]");
  }
  const Variable set("https_proxy", "http://127.0.0.1:3128");
  const Variable excepted("no_proxy", "localhost, .example.org");
  EXPECT_EQ(timeout_reason(), "no response from example.org in time");
}

TEST(HttpSender, UsedOrInapplicableProxyIsNotReported) {
  const Variable set("https_proxy", "http://127.0.0.1:3128");
  SinkConfig sink = webhook();
  EXPECT_EQ(unused_proxy(sink), "https_proxy");
  sink.url.origin.proxy = http::Proxy{"127.0.0.1", 3128};
  EXPECT_EQ(unused_proxy(sink), "");
  sink = webhook();
  sink.url = *parse_url("https://127.0.0.1:8443/hook");
  EXPECT_EQ(unused_proxy(sink), "");
  sink.url = *parse_url("http://example.org/hook");
  EXPECT_EQ(unused_proxy(sink), "") << "https_proxy is for https";
}

TEST(HttpSender, AsksOnItsWorkerAndAnswersOnTheLoop) {
  std::string target;
  Duration timeout{};
  HttpSenderFixture wired(
      [&](const http::Origin& origin, const http::ClientRequest& request, Duration given) {
        EXPECT_EQ(origin.text(), "example.org");
        target = request.target;
        timeout = given;
        return Answer(response(200));
      });
  wired.send();
  EXPECT_EQ(target, "");
  wired.worker->run_all();
  EXPECT_EQ(target, "/s3cret-path?token=t0ken-in-query");
  EXPECT_EQ(timeout, seconds(10));
  ASSERT_EQ(wired.results.size(), 1U);
  EXPECT_EQ(wired.results[0].kind, SendResult::Kind::delivered);
}

TEST(HttpSender, FullWorkerQueueReturnsRetryLater) {
  HttpSenderFixture wired([](const auto&, const auto&, Duration) { return Answer(response(200)); });
  wired.worker->full = true;
  wired.send();
  EXPECT_TRUE(wired.results.empty());
  wired.loop.run_posted();
  ASSERT_EQ(wired.results.size(), 1U);
  EXPECT_EQ(wired.results[0].kind, SendResult::Kind::retry);
}

TEST(SenderSecrets, EchoedSecretsNeverReachLogOrError) {
  const CapturedLog log;
  ManualLoop loop;
  ManualWorker* worker = nullptr;
  int status = 500;
  // It echoes all that it was sent.
  const Fetch echo = [&](const auto&, const http::ClientRequest& request, Duration) {
    std::string body = request.target + " ";
    for (const auto& header : request.headers) body += header.name + ": " + header.value + " ";
    return Answer(response(status, body));
  };
  std::string log_text;
  SinkDispatcher outlets(loop,
                         [&](const SinkConfig& sink) {
                           auto made = std::make_unique<ManualWorker>();
                           worker = made.get();
                           return std::make_unique<HttpSender>(loop, sink, std::move(made), echo);
                         },
                         {.on_delivered = [](const auto&, const auto&) {},
                          .on_dead_letter = [&](const auto&, const auto&,
                                                const auto& why) { log_text += why + "\n"; }});
  ASSERT_TRUE(outlets.replace({webhook()}));
  for (const int next : {500, 400}) {
    status = next;
    outlets.send("a", hot_gpu(std::to_string(next)));
    // Longer than the longest pause between two tries, whatever its chance part.
    for (int i = 0; i < 400; ++i) {
      loop.advance(seconds(1));
      worker->run_all();
    }
    const auto figures = outlets.stats().at(0);
    log_text += figures.destination + figures.last_error.value_or("") + "\n";
  }
  loop.advance(std::chrono::hours(7));
  for (const std::string& line : log.lines()) log_text += line + "\n";
  EXPECT_THAT(log_text, HasSubstr("example.org responded with 500"));
  EXPECT_THAT(log_text, HasSubstr("example.org responded with 400"));
  for (const char* secret : {"s3cret", "t0ken", "pa55", "k3y", "bWU6"}) {
    EXPECT_THAT(log_text, Not(HasSubstr(secret)));
  }
}

}  // namespace
}  // namespace gpuyard::notify
