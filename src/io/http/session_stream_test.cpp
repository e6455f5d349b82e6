#include "io/http/event_stream.h"
#include "io/http/response_stream_for_tests.h"
#include "io/http/session_for_tests.h"

namespace gpuyard::http {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class SessionStream : public SessionTest {
 protected:
  SessionStream() { answer_ = event_stream(source_); }

  // The text as one chunk of chunked coding.
  static std::string framed(std::string_view text) { return std::string(Chunk(text).framed()); }
  std::string begin() { return exchange(kGet); }
  std::string say(std::string_view text) {
    source_->say(text);
    io_.poll();
    return pipe_->take_received();
  }

  std::shared_ptr<ManualStream> source_ = std::make_shared<ManualStream>();
};

TEST_F(SessionStream, HeadAndRetryDelayAreSentAtOnce) {
  EXPECT_EQ(begin(),
            "HTTP/1.1 200 OK\r\nServer: gpuyard\r\nX-Content-Type-Options: nosniff\r\n"
            "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
            "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\nConnection: close\r\n\r\n" +
                framed("retry: 2000\n\n"));
  EXPECT_EQ(context_->counters.streams, 1U);
}

TEST_F(SessionStream, PendingPieceIsSentWithHead) {
  source_->say("early");
  EXPECT_THAT(begin(), EndsWith(framed("early")));
}

TEST_F(SessionStream, SendsEachPieceWhenItComes) {
  begin();
  EXPECT_EQ(say("one"), framed("one"));
  EXPECT_EQ(say("two"), framed("two"));
}

TEST_F(SessionStream, NeverCompressesOrMeasuresIt) {
  const std::string head =
      exchange("GET /a HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n");
  EXPECT_THAT(head, AllOf(Not(HasSubstr("Content-Encoding")), Not(HasSubstr("Content-Length"))));
}

TEST_F(SessionStream, LeavesChunksOutForHttp10AndEndsWithTheConnection) {
  const std::string head = exchange("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(head, AllOf(Not(HasSubstr("Transfer-Encoding")), HasSubstr("Connection: close\r\n"),
                          EndsWith("\r\n\r\nretry: 2000\n\n")));
  EXPECT_EQ(say("plain"), "plain");
  source_->end();
  io_.poll();
  EXPECT_EQ(pipe_->take_received(), "");
  EXPECT_TRUE(pipe_->finished_by_server());
}

TEST_F(SessionStream, AnswersHeadWithTheHeadAlone) {
  const std::string head = exchange("HEAD /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(head,
              AllOf(HasSubstr("text/event-stream"), EndsWith("\r\n\r\n"), Not(HasSubstr("retry"))));
  EXPECT_TRUE(pipe_->finished_by_server());
  EXPECT_EQ(context_->counters.streams, 0U);
}

TEST_F(SessionStream, EndsTheBodyWhenItsFeedIsOver) {
  begin();
  source_->say("last");
  source_->end();
  io_.poll();
  EXPECT_EQ(pipe_->take_received(), framed("last") + "0\r\n\r\n");
  EXPECT_TRUE(pipe_->finished_by_server());
  EXPECT_EQ(context_->counters.streams, 0U);
}

TEST_F(SessionStream, EndsTheBodyAtOnceWhenTheServerStops) {
  begin();
  for (Connection* connection : context_->quotas.all()) connection->finish();
  io_.poll();
  EXPECT_EQ(pipe_->take_received(), "0\r\n\r\n");
  EXPECT_TRUE(pipe_->finished_by_server());
}

TEST_F(SessionStream, HeartbeatIsSentAfterIdleInterval) {
  begin();
  pass(context_->limits.heartbeat_interval - milliseconds(1));
  EXPECT_EQ(pipe_->take_received(), "");
  pass(milliseconds(1));
  EXPECT_EQ(pipe_->take_received(), framed(":\n\n"));
  pass(context_->limits.heartbeat_interval / 2);
  EXPECT_EQ(say("news"), framed("news"));
  pass(context_->limits.heartbeat_interval / 2);
  EXPECT_EQ(pipe_->take_received(), "");  // counted from the last chunk
}

TEST_F(SessionStream, LastsLongerThanAnyOtherResponse) {
  begin();
  pass(std::chrono::hours(10));
  EXPECT_FALSE(has_session_ended());
  EXPECT_THAT(say("still"), EndsWith(framed("still")));
}

TEST_F(SessionStream, EndsWhenItsClientDoesNotRead) {
  begin();
  pipe_->stall();
  source_->say("unread");
  io_.poll();
  pass(context_->limits.write_timeout - milliseconds(1));
  EXPECT_FALSE(has_session_ended());
  pass(milliseconds(1));
  EXPECT_TRUE(has_session_ended());
}

TEST_F(SessionStream, StalledWriteStopsTakingPieces) {
  begin();
  pipe_->stall();
  for (int i = 0; i < 100; ++i) say("unread");
  EXPECT_EQ(source_->waiting(), 99U);  // the first is being written
}

TEST_F(SessionStream, TakesNoMoreAtOnceThanItsLimit) {
  start(Limits{.stream_batch_bytes = 100});
  for (int i = 0; i < 10; ++i) source_->say(std::string(60, 'x'));
  pipe_->stall();
  begin();
  EXPECT_EQ(source_->waiting(), 8U);
}

TEST_F(SessionStream, EndsAtOnceWhenItsClientLeaves) {
  begin();
  pipe_->vanish();
  io_.poll();
  EXPECT_TRUE(has_session_ended());
  source_->say("to nobody");
}

TEST_F(SessionStream, DoesNotEndWhenItsClientMerelyStopsSending) {
  begin();
  pipe_->finish();
  io_.poll();
  EXPECT_EQ(say("heard"), framed("heard"));
}

TEST_F(SessionStream, BreaksOffWhereAFeedMayNotEnd) {
  source_->may_end(false);
  begin();
  source_->end();
  io_.poll();
  EXPECT_EQ(pipe_->take_received(), "");
  EXPECT_TRUE(pipe_->finished_by_server());
}

TEST_F(SessionStream, LeavesFurtherRequestsUnanswered) {
  exchange(std::string(kGet) + std::string(kGet));
  exchange(kGet);
  EXPECT_EQ(paths_.size(), 1U);
  source_->end();
  io_.poll();
  EXPECT_EQ(pipe_->take_received(), "0\r\n\r\n");
  EXPECT_EQ(paths_.size(), 1U);
}

TEST_F(SessionStream, IsRefusedOverTheLimitAndTheConnectionGoesOn) {
  start(Limits{.streams = 0});
  EXPECT_THAT(begin(), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("too many streams")));
}

TEST_F(SessionStream, IsRefusedOverTheLimitOfAllListenersToo) {
  start(Limits{.total_streams = 0});
  EXPECT_THAT(begin(), StartsWith("HTTP/1.1 503 "));
}

TEST_F(SessionStream, StreamKeepsSlotWhenServerIsFull) {
  begin();
  EXPECT_EQ(context_->quotas.admit({"uid 2"}, nullptr, context_->limits.connections),
            ConnectionQuotas::QuotaDecision::server_full);
  EXPECT_EQ(say("still"), framed("still"));
}

TEST_F(SessionStream, EndedSessionReleasesResponseStream) {
  const std::weak_ptr<ManualStream> watched = source_;
  begin();
  pipe_->vanish();
  io_.poll();
  answer_ = Response();
  source_ = nullptr;
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace gpuyard::http
