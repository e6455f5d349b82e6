// Everything a stranger can make us hold or wait for, with a name and a bound. Knows no GPU.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/clock.h"
#include "base/shares.h"

namespace gpuyard::http {

// A header must fit into the read buffer whole, and the parser must be the one to find it too long.
inline constexpr std::size_t kBeyondHeader = 1024;

// One connection has one request in work at a time: pipelined requests wait in the socket and are
// answered in order, so they need no limit of their own. What a connection holds of its client's
// bytes is then a header (with kBeyondHeader), the values taken from it, and a body.
struct Limits {
  std::size_t header_bytes =
      std::size_t{16} * 1024;                        // request line and fields together; 431 beyond
  std::size_t target_bytes = std::size_t{4} * 1024;  // 414 beyond
  std::size_t body_bytes = std::size_t{64} * 1024;   // 413 beyond
  std::size_t empty_lines = 8;  // before a request line, as some clients send them; 400 beyond
  std::size_t connections = shares::kConnections;  // per listener; more are answered 503 and closed
  // Responses without an end; 503 beyond. Fewer than connections, so that they cannot keep others
  // out.
  std::size_t streams = shares::kStreams;         // per listener
  std::size_t all_streams = shares::kAllStreams;  // of all listeners together
  // Of them, what one user or one address on TCP may have at all listeners. Where there is no room
  // left, whoever has most gives way to who has less.
  std::size_t connections_of_one = static_cast<std::size_t>(Shares{}.connections);
  std::size_t streams_of_one = static_cast<std::size_t>(Shares{}.streams);
  // Beyond all these, of connections and of streams at each listener: for root and for our own
  // user.
  std::size_t kept_places = shares::kKeptPlaces;

  Duration idle = std::chrono::seconds(60);   // between two requests; closed without a word
  Duration read = std::chrono::seconds(10);   // the header, then again the body; 408 beyond
  Duration write = std::chrono::seconds(10);  // one whole response; closed beyond
  // From the handler's call to its Reply, which some hold back for a minute until there is
  // something to say; 503 beyond.
  Duration handler = std::chrono::seconds(75);
  Duration heartbeat = std::chrono::seconds(15);  // of a stream on which nothing else happens

  // Of a stream: what is taken from its feed at once, and what the kernel may hold for a client
  // that does not read. Each piece must be written within `write`.
  std::size_t stream_batch_bytes = std::size_t{64} * 1024;
  std::size_t stream_unsent_bytes = std::size_t{64} * 1024;

  // After the last response the client's remaining bytes are read and dropped for this long, since
  // closing a socket with unread bytes makes the kernel throw our answer away.
  Duration linger = std::chrono::seconds(1);
  std::size_t linger_bytes = std::size_t{256} * 1024;

  std::size_t gzip_from_bytes = 1024;  // a smaller body fits into a packet or two as it is
};

}  // namespace gpuyard::http
