#include "io/http/session_for_tests.h"

namespace gpuyard::http {
namespace {

using testing::StartsWith;

using SessionDeadline = SessionTest;

TEST_F(SessionDeadline, IgnoresAReplyAfterTheHandlersDeadline) {
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

TEST_F(SessionDeadline, ClosesAnIdleConnectionWithoutAWord) {
  exchange(kGet);
  pass(site_->limits.idle - std::chrono::milliseconds(1));
  EXPECT_FALSE(gone());
  pass(std::chrono::milliseconds(1));
  EXPECT_EQ(pipe_->take_received(), "");
  EXPECT_TRUE(gone());
}

TEST_F(SessionDeadline, ClosesAConnectionThatNeverSpeaks) {
  pass(site_->limits.read);
  EXPECT_TRUE(gone());
}

TEST_F(SessionDeadline, CountsIdlenessFromTheLastResponse) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(exchange(kGet), kHello);
    pass(site_->limits.idle / 2);
  }
  EXPECT_FALSE(gone());
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
  pass(site_->limits.read);
  EXPECT_THAT(pipe_->take_received(), StartsWith("HTTP/1.1 408 "));
}

TEST_F(SessionDeadline, GivesUpOnAClientThatDoesNotRead) {
  pipe_->stall();
  exchange(kGet);
  pass(site_->limits.write - std::chrono::milliseconds(1));
  EXPECT_FALSE(gone());
  pass(std::chrono::milliseconds(1));
  EXPECT_TRUE(gone());
}

TEST_F(SessionDeadline, LingersNoLongerThanItsLimitAfterTheLastResponse) {
  exchange("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  exchange("this is not looked at");
  EXPECT_FALSE(gone());
  pass(site_->limits.linger);
  EXPECT_TRUE(gone());
}

TEST_F(SessionDeadline, LingersForNoMoreThanSoManyBytes) {
  exchange("nonsense\r\n\r\n");
  exchange(std::string(site_->limits.linger_bytes, 'x'));
  EXPECT_TRUE(gone());
}

}  // namespace
}  // namespace gpuyard::http
