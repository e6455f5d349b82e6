#include "io/http/session_for_tests.h"

namespace gpuyard::http {
namespace {

using testing::StartsWith;

using SessionDeadline = SessionTest;

TEST_F(SessionDeadline, IgnoresAReplyAfterTheHandlersDeadline) {
  hold_ = true;
  exchange(kGet);
  pass(context_->limits.handler_timeout - std::chrono::milliseconds(1));
  EXPECT_EQ(pipe_->take_received(), "");
  pass(std::chrono::milliseconds(1));
  EXPECT_THAT(pipe_->take_received(), StartsWith("HTTP/1.1 503 "));
  held_.at(0)(answer_);
  io_.poll();
  EXPECT_EQ(pipe_->take_received(), "");
  EXPECT_TRUE(pipe_->finished_by_server());
}

TEST_F(SessionDeadline, ClosesAnIdleConnectionWithoutAWord) {
  exchange(kGet);
  pass(context_->limits.idle_timeout - std::chrono::milliseconds(1));
  EXPECT_FALSE(has_session_ended());
  pass(std::chrono::milliseconds(1));
  EXPECT_EQ(pipe_->take_received(), "");
  EXPECT_TRUE(has_session_ended());
}

TEST_F(SessionDeadline, ClosesAConnectionThatNeverSpeaks) {
  pass(context_->limits.read_timeout);
  EXPECT_TRUE(has_session_ended());
}

TEST_F(SessionDeadline, CountsIdlenessFromTheLastResponse) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(exchange(kGet), kHello);
    pass(context_->limits.idle_timeout / 2);
  }
  EXPECT_FALSE(has_session_ended());
}

TEST_F(SessionDeadline, Says408ToASlowHeaderHoweverSteadilyItDrips) {
  std::string response;
  for (int i = 0; i < 11 && response.empty(); ++i) {
    response = exchange(i == 0 ? "GET /" : "x");
    pass(std::chrono::seconds(1));
    response += pipe_->take_received();
  }
  EXPECT_THAT(response, StartsWith("HTTP/1.1 408 "));
}

TEST_F(SessionDeadline, Says408ToASlowBody) {
  exchange("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nab");
  pass(context_->limits.read_timeout);
  EXPECT_THAT(pipe_->take_received(), StartsWith("HTTP/1.1 408 "));
}

TEST_F(SessionDeadline, GivesUpOnAClientThatDoesNotRead) {
  pipe_->stall();
  exchange(kGet);
  pass(context_->limits.write_timeout - std::chrono::milliseconds(1));
  EXPECT_FALSE(has_session_ended());
  pass(std::chrono::milliseconds(1));
  EXPECT_TRUE(has_session_ended());
}

TEST_F(SessionDeadline, LingersNoLongerThanItsLimitAfterTheLastResponse) {
  exchange("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  exchange("this is not looked at");
  EXPECT_FALSE(has_session_ended());
  pass(context_->limits.linger_timeout);
  EXPECT_TRUE(has_session_ended());
}

TEST_F(SessionDeadline, LingersForNoMoreThanSoManyBytes) {
  exchange("nonsense\r\n\r\n");
  exchange(std::string(context_->limits.linger_bytes, 'x'));
  EXPECT_TRUE(has_session_ended());
}

}  // namespace
}  // namespace gpuyard::http
