// Everything a stranger can make us hold or wait for, with a name and a bound. Knows no GPU.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/clock.h"
#include "base/limits.h"

namespace gpuyard::http {

// A header must fit into the read buffer whole, and the parser must be the one to find it too long.
inline constexpr std::size_t kHeaderSlackBytes = 1024;

// One connection has one request in work at a time: pipelined requests wait in the socket and are
// answered in order, so they need no limit of their own. What a connection holds of its client's
// bytes is then a header (with kHeaderSlackBytes), the values taken from it, and a body.
struct Limits {
  // Request line and fields together; 431 beyond.
  std::size_t header_bytes = std::size_t{16} * 1024;
  std::size_t target_bytes = std::size_t{4} * 1024;  // 414 beyond
  std::size_t body_bytes = std::size_t{64} * 1024;   // 413 beyond
  std::size_t empty_lines = 8;  // before a request line, as some clients send them; 400 beyond
  // Per listener; more are answered 503 and closed.
  std::size_t connections = limits::kMaxConnections;
  // Responses without an end; 503 beyond. Fewer than connections, so that they cannot keep others
  // out.
  std::size_t streams = limits::kMaxStreams;             // per listener
  std::size_t total_streams = limits::kMaxTotalStreams;  // of all listeners together
  // The most connections and streams of one user, or of one address on TCP, at all listeners. Where
  // there is no room left, the one that has most gives way to one that has less.
  std::size_t connections_per_group = static_cast<std::size_t>(UserQuotas{}.connections);
  std::size_t streams_per_group = static_cast<std::size_t>(UserQuotas{}.streams);
  // Connections, and streams, at each listener that are reserved for root and for our own user,
  // beyond all these.
  std::size_t reserved_slots = limits::kReservedSlots;

  // Handshakes under way over TLS, of all listeners together; of one address, and of one IPv6
  // network of 64 bits. They do not count as connections. Beyond, a client is turned away without a
  // word, unless another's handshake is stalled: that one gives way.
  std::size_t handshakes = 256;
  std::size_t handshakes_per_group = 32;
  Duration handshake_timeout = std::chrono::seconds(5);  // the whole of it
  // Without an answer of the client.
  Duration handshake_stall_timeout = std::chrono::milliseconds(100);

  Duration idle_timeout = std::chrono::seconds(60);   // between two requests; closed without a word
  Duration read_timeout = std::chrono::seconds(10);   // the header, then again the body; 408 beyond
  Duration write_timeout = std::chrono::seconds(10);  // one whole response; closed beyond
  // From the handler's call to its Reply; 503 beyond. Some handlers hold their Reply back for a
  // minute, until there is something to say.
  Duration handler_timeout = std::chrono::seconds(75);
  // Between heartbeats on a stream without other events.
  Duration heartbeat_interval = std::chrono::seconds(15);

  // The bytes that are taken from a stream at once, and that the kernel may hold for a client that
  // does not read. Each chunk must be written within `write_timeout`.
  std::size_t stream_batch_bytes = std::size_t{64} * 1024;
  std::size_t stream_unsent_bytes = std::size_t{64} * 1024;

  // After the last response the client's remaining bytes are read and dropped for this long, since
  // closing a socket with unread bytes makes the kernel throw our answer away.
  Duration linger_timeout = std::chrono::seconds(1);
  std::size_t linger_bytes = std::size_t{256} * 1024;

  std::size_t gzip_from_bytes = 1024;  // a smaller body fits into a packet or two as it is
};

}  // namespace gpuyard::http
