// Coroutines: one co_await per statement, its arguments named.
#include "io/http/response_stream_sender.h"

#include <memory>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "io/http/event_stream.h"
#include "io/http/loop_core.h"

namespace gpuyard::http {
namespace {

constexpr std::size_t kMaxParts = 64;  // what one system call takes
constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace

ResponseStreamSender::ResponseStreamSender(ServerContext& context, const QuotaGroup& group,
                                           Stream& stream, ResponseStream& response_stream,
                                           std::string head, bool chunked)
    : context_(context),
      quota_group_(group),
      stream_(stream),
      source_(response_stream),
      head_(std::move(head)),
      chunked_(chunked),
      turns_(context.io.core().turns),
      deadline_(context.time, [this] { on_timeout(); }) {
  source_.set_on_more([this] { wake(); });
}

ResponseStreamSender::~ResponseStreamSender() {
  source_.set_on_more(nullptr);
}

asio::awaitable<bool> ResponseStreamSender::run() {
  co_await turns_.wait_for_turn(quota_group_);
  parts_.push_back(head_);
  put(stream_opening());
  if (!failed_) gather();
  if (!failed_) co_await send();
  while (!is_ending()) {
    gather();
    if (parts_.empty() && source_.is_over()) break;
    if (parts_.empty()) {
      co_await wait_for_chunk();
    } else {
      co_await send();
      co_await turns_.wait_for_turn(quota_group_);
    }
  }
  failed_ = failed_ || !source_.can_end();
  if (!failed_) co_await finish();
  co_return !failed_;
}

void ResponseStreamSender::gather() {
  more_ = false;
  std::size_t bytes = 0;
  while (parts_.size() < kMaxParts && bytes < context_.limits.stream_batch_bytes) {
    const Chunk chunk = source_.next();
    if (!chunk) return;
    bytes += chunk.framed().size();
    put(chunk);
  }
}

void ResponseStreamSender::put(const Chunk& chunk) {
  batch_.push_back(chunk);
  parts_.push_back(chunked_ ? chunk.framed() : chunk.text());
}

// Waits until there is more; a stream that stays idle gets a heartbeat.
asio::awaitable<void> ResponseStreamSender::wait_for_chunk() {
  deadline_.set(context_.limits.heartbeat_interval);
  while (!more_ && !is_ending() && !deadline_.is_missed())
    co_await turns_.sleep(this, quota_group_);
  if (!more_ && !is_ending()) put(heartbeat());
  if (!parts_.empty()) co_await send();
}

asio::awaitable<void> ResponseStreamSender::send() {
  writing_ = true;
  deadline_.set(context_.limits.write_timeout);
  const std::span<const std::string_view> parts(parts_);
  const IoResult sent = co_await stream_.write_all(parts);
  writing_ = false;
  failed_ = failed_ || !sent.ok;
  parts_.clear();
  batch_.clear();
}

asio::awaitable<void> ResponseStreamSender::finish() {
  if (!chunked_) co_return;
  parts_.push_back(kLastChunk);
  co_await send();
}

void ResponseStreamSender::stop() {
  stopping_ = true;
  turns_.wake(this);
}

void ResponseStreamSender::abort() {
  failed_ = true;
  turns_.wake(this);
}

void ResponseStreamSender::wake() {
  if (!std::exchange(more_, true)) turns_.wake(this);
}

void ResponseStreamSender::on_timeout() {
  if (writing_) {
    stream_.abort();
  } else {
    turns_.wake(this);
  }
}

}  // namespace gpuyard::http
