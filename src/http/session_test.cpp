// Sessions over memory and a clock that stands still: no socket, no waiting.
#include "http/session.h"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "base/manual_loop.h"
#include "http/memory_pipe.h"

namespace gpuyard::http {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Session : public testing::Test {
 protected:
  Session() { start(Limits()); }

  void start(const Limits& limits) {
    if (pipe_) pipe_->vanish();
    io_.poll();
    pipe_ = std::make_unique<MemoryPipe>(io_);
    site_ = std::make_shared<Site>(
        io_, time_,
        [this](Request request, Reply reply) {
          paths_.push_back(request.path);
          last_ = std::move(request);
          if (hold_) {
            held_.push_back(std::move(reply));
          } else {
            reply(answer_);
          }
        },
        limits);
    Arrival arrival;
    arrival.local_address = "127.0.0.1";
    serve(site_, pipe_->stream(), std::move(arrival));
    io_.poll();
  }

  std::string exchange(std::string_view bytes) {
    pipe_->send(bytes);
    io_.poll();
    return pipe_->take_received();
  }
  void pass(Duration duration) {
    time_.advance(duration);
    io_.poll();
  }
  bool gone() const { return site_->counters.active == 0; }
  void expect_refused(std::string_view bytes, int status, std::string_view code) {
    const std::string response = exchange(bytes);
    EXPECT_THAT(response, StartsWith("HTTP/1.1 " + std::to_string(status) + " "));
    EXPECT_THAT(response, HasSubstr(R"({"error":{"code":")" + std::string(code) + '"'));
    EXPECT_THAT(response, HasSubstr("Connection: close\r\n"));
    EXPECT_TRUE(pipe_->finished_by_server());
  }

  ManualLoop time_;  // outlives the sessions that the loop still holds
  IoLoop io_;
  std::unique_ptr<MemoryPipe> pipe_;
  std::shared_ptr<Site> site_;
  Response answer_{200, "text/plain", "hello"};
  bool hold_ = false;
  std::vector<Reply> held_;
  std::vector<std::string> paths_;
  std::optional<Request> last_;
};

constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";
constexpr std::string_view kHello =
    "HTTP/1.1 200 OK\r\nServer: gpuyard\r\nX-Content-Type-Options: nosniff\r\n"
    "Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";

TEST_F(Session, AnswersARequestAndKeepsTheConnectionOpen) {
  EXPECT_EQ(exchange(kGet), kHello);
  EXPECT_EQ(exchange(kGet), kHello);
  EXPECT_FALSE(gone());
  EXPECT_EQ(site_->counters.requests, 2U);
}

TEST_F(Session, AssemblesARequestDeliveredByteByByte) {
  const std::string request =
      "POST /p?x=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody";
  std::string response;
  for (const char c : request) {
    EXPECT_EQ(response, "");
    response = exchange(std::string(1, c));
  }
  EXPECT_EQ(response, kHello);
  EXPECT_EQ(last_->body, "body");
  EXPECT_EQ(last_->method, Method::post);
}

TEST_F(Session, AssemblesAChunkedBodyDeliveredByteByByteAndDropsItsTrailer) {
  const std::string request =
      "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nX-Late: 1\r\n\r\n";
  std::string response;
  for (const char c : request) response = exchange(std::string(1, c));
  EXPECT_EQ(response, kHello);
  EXPECT_EQ(last_->body, "abcde");
  EXPECT_EQ(last_->header("x-late"), "");
}

TEST_F(Session, AnswersPipelinedRequestsInOrder) {
  exchange(std::string(kGet) + "GET /b HTTP/1.1\r\nHost: localhost\r\n\r\n" + std::string(kGet));
  EXPECT_THAT(paths_, ElementsAre("/a", "/b", "/a"));
}

TEST_F(Session, HasOnePipelinedRequestInWorkAtATime) {
  hold_ = true;
  exchange(std::string(kGet) + std::string(kGet));
  EXPECT_EQ(paths_.size(), 1U);
  held_.at(0)(answer_);
  io_.poll();
  EXPECT_EQ(pipe_->take_received(), kHello);
  EXPECT_EQ(paths_.size(), 2U);
}

TEST_F(Session, HandsOverTheRequestDecoded) {
  exchange("PUT /a%20b?x=1&y=a+b%21&x=2&flag HTTP/1.1\r\nHost: localhost\r\nX-Who: me\r\n\r\n");
  EXPECT_EQ(last_->path, "/a b");
  EXPECT_EQ(last_->target, "/a%20b?x=1&y=a+b%21&x=2&flag");
  const std::vector<std::pair<std::string, std::string>> query = {
      {"x", "1"}, {"y", "a+b!"}, {"x", "2"}, {"flag", ""}};
  EXPECT_EQ(last_->query, query);
  EXPECT_EQ(last_->header("x-wHO"), "me");
  EXPECT_EQ(last_->received, time_.now());
}

TEST_F(Session, AnswersHeadAsGetWithoutTheBody) {
  const std::string response = exchange("HEAD /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(response, kHello.substr(0, kHello.size() - 5));
  EXPECT_EQ(last_->method, Method::get);
  EXPECT_EQ(exchange(kGet), kHello);
}

TEST_F(Session, SendsNoBodyWith204) {
  answer_.status = 204;
  EXPECT_THAT(exchange(kGet), AllOf(Not(HasSubstr("Content-Length")), EndsWith("\r\n\r\n")));
}

TEST_F(Session, LeavesOutAFieldWithALineBreak) {
  answer_.headers.push_back(Header{"X-Evil", "a\r\nSet-Cookie: b"});
  answer_.headers.push_back(Header{"X-Good", "1"});
  EXPECT_THAT(exchange(kGet), AllOf(Not(HasSubstr("Set-Cookie")), HasSubstr("X-Good: 1\r\n")));
}

TEST_F(Session, AnnouncesContinueOnceTheHeaderIsAccepted) {
  const std::string_view header =
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
  EXPECT_EQ(exchange(header), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(exchange("ok"), kHello);
}

TEST_F(Session, RefusesTheBodyInsteadOfContinueWhenItIsTooLarge) {
  expect_refused(
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000\r\nExpect: 100-continue\r\n\r\n",
      413, "body_too_large");
  EXPECT_TRUE(paths_.empty());
}

TEST_F(Session, RefusesAnotherExpectation) {
  expect_refused("GET / HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\n\r\n", 417,
                 "unsupported");
}

TEST_F(Session, RefusesAChunkedBodyOnceItsSumIsTooLarge) {
  std::string request = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string chunk = "4000\r\n" + std::string(0x4000, 'x') + "\r\n";
  for (int i = 0; i < 5; ++i) request += chunk;
  expect_refused(request, 413, "body_too_large");
}

TEST_F(Session, RefusesALongHeader) {
  expect_refused("GET / HTTP/1.1\r\nX: " + std::string(17'000, 'x'), 431, "header_too_large");
}

TEST_F(Session, RefusesAHeaderOfManyShortFieldsThatComeOneByOne) {
  exchange("GET / HTTP/1.1\r\nHost: localhost\r\n");
  std::string response;
  for (int i = 0; i < 1000 && response.empty(); ++i) {
    response = exchange("X-Field: 0123456789abcdef\r\n");
  }
  EXPECT_THAT(response, StartsWith("HTTP/1.1 431 "));
}

TEST_F(Session, RefusesALongTarget) {
  expect_refused("GET /" + std::string(5000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 414,
                 "target_too_large");
}

TEST_F(Session, RefusesATargetThatNeverEnds) {
  expect_refused("GET /" + std::string(20'000, 'x'), 414, "target_too_large");
}

TEST_F(Session, RefusesAChunkExtensionThatNeverEnds) {
  exchange("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  expect_refused("1;" + std::string(20'000, 'x'), 400, "invalid");
}

class MalformedRequest : public Session, public testing::WithParamInterface<const char*> {};

TEST_P(MalformedRequest, IsRefusedAndEndsTheConnection) {
  expect_refused(GetParam(), 400, "invalid");
  EXPECT_EQ(site_->counters.requests, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Session, MalformedRequest,
    testing::Values(
        "nonsense\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        "GET relative HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET http://evil/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /a/../b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /%2e%2E/b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /%4 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /?a=%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        "Content-Length: 3\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2\r\nabXX0\r\n\r\n"));

TEST_F(Session, RefusesATransferEncodingItDoesNotKnow) {
  expect_refused("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                 501, "unsupported");
}

TEST_F(Session, ToldANameThatIsNotOursExplainsAndCloses) {
  expect_refused("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "misdirected");
  EXPECT_TRUE(paths_.empty());
}

TEST_F(Session, AcceptsAConfiguredName) {
  site_->allowed_hosts = {"node7.example"};
  EXPECT_EQ(exchange("GET / HTTP/1.1\r\nHost: Node7.example:9410\r\n\r\n"), kHello);
}

TEST_F(Session, ClosesAfterConnectionClose) {
  EXPECT_THAT(exchange("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
              HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(pipe_->finished_by_server());
}

TEST_F(Session, ClosesAfterHttp10UnlessAskedToStay) {
  EXPECT_THAT(exchange("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
              HasSubstr("Connection: keep-alive\r\n"));
  EXPECT_FALSE(pipe_->finished_by_server());
  EXPECT_THAT(exchange("GET / HTTP/1.0\r\n\r\n"), HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(pipe_->finished_by_server());
}

TEST_F(Session, ClosesWhenTheHandlerAsksForIt) {
  answer_.close = true;
  EXPECT_THAT(exchange(kGet), HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(pipe_->finished_by_server());
}

TEST_F(Session, AnswersAClientThatHasFinishedSending) {
  pipe_->send(kGet);
  pipe_->finish();
  io_.poll();
  EXPECT_EQ(pipe_->take_received(), kHello);
  EXPECT_TRUE(gone());
}

TEST_F(Session, EndsSilentlyWhenARequestBreaksOff) {
  pipe_->send("GET / HT");
  pipe_->finish();
  io_.poll();
  EXPECT_EQ(pipe_->take_received(), "");
  EXPECT_TRUE(gone());
}

TEST_F(Session, AnswersLater) {
  hold_ = true;
  EXPECT_EQ(exchange(kGet), "");
  held_.at(0)(answer_);
  io_.poll();
  EXPECT_EQ(pipe_->take_received(), kHello);
}

TEST_F(Session, AnswersADroppedReplyWith500) {
  hold_ = true;
  exchange(kGet);
  held_.clear();
  io_.poll();
  EXPECT_THAT(pipe_->take_received(), StartsWith("HTTP/1.1 500 "));
}

TEST_F(Session, AnswersAThrowingHandlerWith500) {
  log::capture([](log::Level, std::string_view) {});
  site_->handler = [](Request, Reply) { throw std::runtime_error("oh"); };
  EXPECT_THAT(exchange(kGet), StartsWith("HTTP/1.1 500 "));
  log::capture(nullptr);
}

TEST_F(Session, IgnoresAReplyAfterTheClientHasGone) {
  hold_ = true;
  exchange(kGet);
  pipe_->vanish();
  io_.poll();
  held_.at(0)(answer_);
  io_.poll();
  EXPECT_TRUE(gone());
}

TEST_F(Session, IgnoresAReplyAfterTheHandlersDeadline) {
  hold_ = true;
  exchange(kGet);
  pass(site_->limits.handler - std::chrono::milliseconds(1));
  EXPECT_EQ(pipe_->take_received(), "");
  pass(std::chrono::milliseconds(1));
  EXPECT_THAT(pipe_->take_received(), StartsWith("HTTP/1.1 503 "));
  held_.at(0)(answer_);
  io_.poll();
  EXPECT_EQ(pipe_->take_received(), "");
  EXPECT_TRUE(pipe_->finished_by_server());
}

TEST_F(Session, ClosesAnIdleConnectionWithoutAWord) {
  exchange(kGet);
  pass(site_->limits.idle - std::chrono::milliseconds(1));
  EXPECT_FALSE(gone());
  pass(std::chrono::milliseconds(1));
  EXPECT_EQ(pipe_->take_received(), "");
  EXPECT_TRUE(gone());
}

TEST_F(Session, ClosesAConnectionThatNeverSpeaks) {
  pass(site_->limits.read);
  EXPECT_TRUE(gone());
}

TEST_F(Session, CountsIdlenessFromTheLastResponse) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(exchange(kGet), kHello);
    pass(site_->limits.idle / 2);
  }
  EXPECT_FALSE(gone());
}

TEST_F(Session, Says408ToASlowHeaderHoweverSteadilyItDrips) {
  std::string response;
  for (int i = 0; i < 11 && response.empty(); ++i) {
    response = exchange(i == 0 ? "GET /" : "x");
    pass(std::chrono::seconds(1));
    response += pipe_->take_received();
  }
  EXPECT_THAT(response, StartsWith("HTTP/1.1 408 "));
}

TEST_F(Session, Says408ToASlowBody) {
  exchange("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nab");
  pass(site_->limits.read);
  EXPECT_THAT(pipe_->take_received(), StartsWith("HTTP/1.1 408 "));
}

TEST_F(Session, GivesUpOnAClientThatDoesNotRead) {
  pipe_->stall();
  exchange(kGet);
  pass(site_->limits.write - std::chrono::milliseconds(1));
  EXPECT_FALSE(gone());
  pass(std::chrono::milliseconds(1));
  EXPECT_TRUE(gone());
}

TEST_F(Session, LingersNoLongerThanItsLimitAfterTheLastResponse) {
  exchange("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  exchange("this is not looked at");
  EXPECT_FALSE(gone());
  pass(site_->limits.linger);
  EXPECT_TRUE(gone());
}

TEST_F(Session, LingersForNoMoreThanSoManyBytes) {
  exchange("nonsense\r\n\r\n");
  exchange(std::string(site_->limits.linger_bytes, 'x'));
  EXPECT_TRUE(gone());
}

}  // namespace
}  // namespace gpuyard::http
