#include "io/http/session_for_tests.h"

#include <stdexcept>

#include "base/log.h"

namespace gpuyard::http {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Session = SessionTest;

TEST_F(Session, AnswersARequestAndKeepsTheConnectionOpen) {
  EXPECT_EQ(exchange(kGet), kHello);
  EXPECT_EQ(exchange(kGet), kHello);
  EXPECT_FALSE(has_session_ended());
  EXPECT_EQ(context_->counters.requests, 2U);
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

TEST_F(Session, BytewiseChunkedBodyIsAssembledWithoutTrailer) {
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
  EXPECT_EQ(last_->received_at, time_.now());
}

TEST_F(Session, TakesATargetWithASchemeAndAHost) {
  for (const char* target : {"http://localhost:9410/a?x=1", "HTTP://127.0.0.1/a?x=1"}) {
    EXPECT_EQ(exchange("GET " + std::string(target) + " HTTP/1.1\r\nHost: evil\r\n\r\n"), kHello);
    EXPECT_EQ(last_->path, "/a");
    EXPECT_EQ(last_->query.size(), 1U);
  }
  exchange("GET http://localhost?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(last_->path, "/");
}

TEST_F(Session, StaysIdleWhenOnlyAnEmptyLineFollowsARequest) {
  EXPECT_EQ(exchange(std::string(kGet) + "\r\n"), kHello);
  pass(context_->limits.idle_timeout);
  EXPECT_EQ(pipe_->take_received(), "");
  EXPECT_TRUE(has_session_ended());
}

TEST_F(Session, LeavesPipelinedBytesToTheSenderWhileItIsBusy) {
  hold_ = true;
  std::string flood;
  while (flood.size() < 1'000'000) flood += kGet;
  exchange(flood);
  EXPECT_EQ(paths_.size(), 1U);
  EXPECT_GE(pipe_->unread() + context_->limits.header_bytes + kHeaderSlackBytes, flood.size());
}

TEST_F(Session, AcceptedGzipCompressesLargeBody) {
  answer_ = Response(200, "text/plain", std::string(5000, 'x'));
  const std::string packed =
      exchange("GET /a HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n");
  EXPECT_THAT(packed, AllOf(HasSubstr("Content-Encoding: gzip\r\n"),
                            HasSubstr("Vary: Accept-Encoding\r\n")));
  EXPECT_LT(packed.size(), 500U);
  EXPECT_THAT(exchange(kGet), EndsWith(std::string(5000, 'x')));  // the next one does not say so
}

TEST_F(Session, SaysNotModifiedWithoutABody) {
  answer_.etag = "\"1\"";
  const std::string response =
      exchange("GET /a HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: \"1\"\r\n\r\n");
  EXPECT_THAT(response, AllOf(StartsWith("HTTP/1.1 304 "), HasSubstr("ETag: \"1\"\r\n"),
                              EndsWith("\r\n\r\n")));
  EXPECT_EQ(exchange(kGet).substr(0, 12), "HTTP/1.1 200");
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
  EXPECT_TRUE(has_session_ended());
}

TEST_F(Session, EndsSilentlyWhenARequestBreaksOff) {
  pipe_->send("GET / HT");
  pipe_->finish();
  io_.poll();
  EXPECT_EQ(pipe_->take_received(), "");
  EXPECT_TRUE(has_session_ended());
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
  context_->handler = [](const Request&, const Reply&) { throw std::runtime_error("oh"); };
  EXPECT_THAT(exchange(kGet), StartsWith("HTTP/1.1 500 "));
  log::capture(nullptr);
}

TEST_F(Session, DisconnectDuringHandlerEndsAtOnce) {
  hold_ = true;
  exchange(kGet);
  EXPECT_FALSE(has_session_ended());
  pipe_->vanish();
  io_.poll();
  EXPECT_TRUE(has_session_ended());
}

TEST_F(Session, IgnoresAReplyAfterTheClientHasGone) {
  hold_ = true;
  exchange(kGet);
  pipe_->vanish();
  io_.poll();
  held_.at(0)(answer_);
  io_.poll();
  EXPECT_TRUE(has_session_ended());
}

}  // namespace
}  // namespace gpuyard::http
