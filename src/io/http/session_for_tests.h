// A session over memory and a clock that stands still, for tests: no socket, no waiting.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"
#include "io/http/memory_pipe_for_tests.h"
#include "io/http/messages_for_tests.h"
#include "io/http/session.h"

namespace gpuyard::http {

class SessionTest : public testing::Test {
 protected:
  SessionTest() { start(Limits()); }

  void start(const Limits& limits) {
    if (pipe_) pipe_->vanish();
    io_.poll();
    pipe_ = std::make_unique<MemoryPipe>(io_);
    context_ = std::make_shared<ServerContext>(
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
    IncomingConnection incoming;
    incoming.local_address = "127.0.0.1";
    begin_session(context_, pipe_->stream(), std::move(incoming));
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
  bool has_session_ended() const { return context_->counters.active == 0; }
  void expect_refused(std::string_view bytes, int status, std::string_view code) {
    const std::string response = exchange(bytes);
    EXPECT_THAT(response, testing::StartsWith("HTTP/1.1 " + std::to_string(status) + " "));
    EXPECT_THAT(response, testing::HasSubstr(R"({"error":{"code":")" + std::string(code) + '"'));
    EXPECT_THAT(response, testing::HasSubstr("Connection: close\r\n"));
    EXPECT_TRUE(pipe_->finished_by_server());
  }

  ManualLoop time_;  // outlives the sessions that the loop still holds
  IoLoop io_;
  std::unique_ptr<MemoryPipe> pipe_;
  std::shared_ptr<ServerContext> context_;
  Response answer_{200, "text/plain", "hello"};
  bool hold_ = false;
  std::vector<Reply> held_;
  std::vector<std::string> paths_;
  std::optional<Request> last_;
};

}  // namespace gpuyard::http
