#include "io/http/stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <utility>
#include <vector>

#include "io/http/loop_core.h"
#include "io/http/turn_scheduler.h"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace gpuyard::http {
namespace {

using Protocol = asio::generic::stream_protocol;
using boost::system::error_code;

class SocketStream final : public Stream {
 public:
  SocketStream(IoLoop::Core& core, const Protocol& protocol, int fd, QuotaGroup group)
      : turns_(core.turns),
        quota_group_(std::move(group)),
        socket_(core.io, protocol, fd),
        fd_(fd) {}

  asio::awaitable<IoResult> read(std::span<char> space) override {
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    const asio::mutable_buffer buffer(space.data(), space.size());
    const std::size_t bytes = co_await socket_.async_read_some(buffer, token);
    const bool ended = error == asio::error::eof;
    const IoResult io(!error || ended, bytes);
    co_return io;
  }

  asio::awaitable<IoResult> write(std::string_view head, std::string_view body) override {
    if (body.size() > TurnScheduler::kMaxImmediateBytes)
      co_await turns_.wait_for_turn(quota_group_);
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    IoResult io(true, 0);
    do {
      if (io.bytes > 0) co_await turns_.wait_for_turn(quota_group_);
      const std::string_view piece = body.substr(0, TurnScheduler::kPieceBytes);
      body.remove_prefix(piece.size());
      std::array<asio::const_buffer, 2> parts;
      parts[0] = asio::const_buffer(head.data(), head.size());
      parts[1] = asio::const_buffer(piece.data(), piece.size());
      head = {};
      const std::size_t bytes = co_await asio::async_write(socket_, parts, token);
      io = IoResult(!error, io.bytes + bytes);
    } while (io.ok && !body.empty());
    co_return io;
  }

  asio::awaitable<IoResult> write_all(std::span<const std::string_view> parts) override {
    buffers_.clear();
    for (const std::string_view part : parts) buffers_.emplace_back(part.data(), part.size());
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    const std::span<const asio::const_buffer> buffers(buffers_);
    const std::size_t bytes = co_await asio::async_write(socket_, buffers, token);
    const IoResult io(!error, bytes);
    co_return io;
  }

  void limit_unsent(std::size_t bytes) override {
    const int size = static_cast<int>(bytes);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  }
  void finish() override {
    error_code ignored;
    socket_.shutdown(Protocol::socket::shutdown_send, ignored);
  }
  bool has_hung_up() const override {
    pollfd entry{fd_, 0, 0};
    return !socket_.is_open() ||
           ::poll(&entry, 1, 0) > 0;  // asked for nothing, it reports a hangup or an error
  }
  void watch_hangup(std::function<void()> on_hangup) override {
    // The loop also reports urgent data, besides a reset and the end of a Unix peer: hence
    // has_hung_up().
    socket_.async_wait(Protocol::socket::wait_error,
                       [on_hangup = std::move(on_hangup)](const error_code& error) {
                         if (!error) on_hangup();
                       });
  }
  void interrupt() override {
    error_code ignored;
    socket_.cancel(ignored);
  }
  void abort() override {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  TurnScheduler& turns_;
  const QuotaGroup quota_group_;
  Protocol::socket socket_;
  const int fd_;                             // kept: Asio does not tell it of a const stream
  std::vector<asio::const_buffer> buffers_;  // of the write_all() under way
};

}  // namespace

std::unique_ptr<Stream> open_socket_stream(IoLoop& loop, UniqueFd socket, QuotaGroup group) {
  sockaddr local{};
  socklen_t length = sizeof local;
  ::getsockname(socket.get(), &local, &length);
  const Protocol protocol(local.sa_family, 0);
  return std::make_unique<SocketStream>(loop.core(), protocol, socket.release(), std::move(group));
}

}  // namespace gpuyard::http
