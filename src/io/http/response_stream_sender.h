// Sends one response stream over one connection until the response stream is over, the client has
// gone, or the server wants to stop. Inner header: includes Asio.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "io/http/asio.h"
#include "io/http/deadline.h"
#include "io/http/listener.h"
#include "io/http/response_stream.h"
#include "io/http/stream.h"
#include "io/http/turn_scheduler.h"

namespace gpuyard::http {

// Thread: io.
class ResponseStreamSender {
 public:
  // `head` goes out before everything else. `context`, `group`, `stream` and `response_stream`
  // outlive the sender.
  ResponseStreamSender(ServerContext& context, const QuotaGroup& group, Stream& stream,
                       ResponseStream& response_stream, std::string head, bool chunked);
  ~ResponseStreamSender();
  ResponseStreamSender(const ResponseStreamSender&) = delete;
  ResponseStreamSender& operator=(const ResponseStreamSender&) = delete;

  // Sends until the end; false when the client has gone or did not read.
  asio::awaitable<bool> run();
  // Ends the body after what is being written.
  void stop();
  // Tells the sender that the stream was aborted.
  void abort();

 private:
  void gather();
  void put(const Chunk& chunk);
  asio::awaitable<void> wait_for_chunk();
  asio::awaitable<void> send();
  asio::awaitable<void> finish();
  bool is_ending() const { return stopping_ || failed_; }
  void wake();
  void on_timeout();

  ServerContext& context_;
  const QuotaGroup& quota_group_;
  Stream& stream_;
  ResponseStream& source_;
  std::string head_;
  const bool chunked_;

  std::vector<Chunk> batch_;             // being written
  std::vector<std::string_view> parts_;  // its bytes
  bool more_ = false;
  bool writing_ = false;
  bool stopping_ = false;
  bool failed_ = false;
  TurnScheduler& turns_;
  Deadline deadline_;
};

}  // namespace gpuyard::http
