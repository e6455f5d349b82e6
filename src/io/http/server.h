// Listens on TCP and Unix sockets and turns what strangers send into calls of one handler. Knows
// no route, no authority and no GPU.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "io/http/loop.h"
#include "io/http/message.h"

namespace gpuyard::http {

// Everything a stranger can make us hold or wait for, with a name and a bound. Knows no GPU.

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
  // Of a stream on which nothing else happens.
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

struct ServerCounters {
  std::uint64_t accepted = 0;  // connections
  std::uint64_t refused = 0;   // connections over a listener's limit
  std::uint64_t active = 0;    // connections now
  std::uint64_t requests = 0;  // complete ones, handed to the handler
  std::uint64_t streams = 0;   // responses without an end, now

  // Over TLS, before a connection is one.
  std::uint64_t handshakes = 0;           // now
  std::uint64_t handshakes_done = 0;      // and the connection was taken in, or refused
  std::uint64_t handshakes_failed = 0;    // also those that gave way
  std::uint64_t handshakes_rejected = 0;  // before their first byte, for want of a slot
};

struct BoundAddress {
  std::string address;
  std::uint16_t port = 0;
};

class IdentitySource;  // server_identity.h

// Lives on the loop's thread, and the loop outlives it. Destroying it closes every connection;
// a Reply that is still out does nothing then.
class Server {
 public:
  Server(IoLoop& loop, Handler handler, Limits limits = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Names that a Host field on TCP may carry besides localhost, loopback addresses and the address
  // that was connected to; all others get 421, so that no web page can reach us by DNS rebinding.
  void allow_hosts(std::vector<std::string> names);

  // Chooses the requests whose peer's process is asked for; all of them by default. A handle of it
  // takes a descriptor for as long as the connection is open.
  void set_process_filter(std::function<bool(const Request&)> wants_process);

  // `quota_owner` returns the user behind a uid: several uids of one user share what one may have.
  // Slots are reserved for peers that are `is_privileged`: root and our own user by default.
  void set_quota_policy(std::function<uid_t(uid_t)> quota_owner,
                        std::function<bool(const Peer&)> is_privileged = nullptr);

  // A literal address; port 0 picks a free port. Errc::conflict if another program uses it,
  // unavailable if this machine does not have the address now.
  Result<BoundAddress> listen_tcp(const std::string& address, std::uint16_t port);

  // The same over TLS. `identity_source` must have an identity and may replace it at any time.
  // Clients may name the server as its certificate does, besides allow_hosts(). A client that
  // speaks plain HTTP gets an error that says so.
  Result<BoundAddress> listen_tls(const std::string& address, std::uint16_t port,
                                  std::shared_ptr<const IdentitySource> identity_source);

  // Appears at `path` already listening and with `mode`. A socket file on which no server answers
  // is replaced; Errc::conflict if one does, or if the file is no socket. The file is removed when
  // the server closes, if it is still the one made here.
  Result<void> listen_unix(const std::string& path, unsigned mode = 0666);

  // Stops listening and closes idle connections at once, busy ones after their response, all of
  // them after `grace`. Then calls `on_done`, never before shutdown() has returned.
  void shutdown(Duration grace, std::function<void()> on_done = nullptr);

  ServerCounters counters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpuyard::http
