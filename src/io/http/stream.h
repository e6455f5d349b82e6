// The bytes of one connection, over any transport: the only thing a session knows of its client.
// Inner header: includes Asio.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/unique_fd.h"
#include "io/http/asio.h"
#include "io/http/connection_quotas.h"
#include "io/http/loop.h"

namespace gpuyard::http {

// The outcome of a read or a write. Not an aggregate: g++ 12 destroys those twice next to co_await.
struct IoResult {
  IoResult(bool succeeded, std::size_t count) : ok(succeeded), bytes(count) {}
  bool ok;
  std::size_t bytes;  // read: 0 with ok means that the client will send no more
};

// One coroutine at a time uses a stream; at most one read or write is under way.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual asio::awaitable<IoResult> read(std::span<char> space) = 0;
  // Writes both parts in full, in one system call if the socket takes them.
  virtual asio::awaitable<IoResult> write(std::string_view head, std::string_view body) = 0;
  // Writes any number of parts likewise. They stay valid until it is done.
  virtual asio::awaitable<IoResult> write_all(std::span<const std::string_view> parts) = 0;
  // From now on holds no more than about `bytes` bytes that the client has not taken.
  virtual void limit_unsent(std::size_t bytes) = 0;
  // Tells the client that nothing follows what was written. Reading goes on.
  virtual void finish() = 0;
  // Whether the client has closed its end altogether. Not every transport can tell: a TCP client
  // that merely ends looks like one that has sent all and waits for its answer.
  virtual bool has_hung_up() const = 0;
  // Calls `on_hangup` once, when has_hung_up() may have become true; interrupt() and abort() end
  // the watch.
  virtual void watch_hangup(std::function<void()> on_hangup) = 0;
  // Makes a read under way fail and ends a watch; the stream can still be used.
  virtual void interrupt() = 0;
  // Makes what is under way and everything later fail.
  virtual void abort() = 0;
};

// A connected TCP or Unix socket. Long writes take the turns of `group`.
std::unique_ptr<Stream> open_socket_stream(IoLoop& loop, UniqueFd socket, QuotaGroup group);

}  // namespace gpuyard::http
