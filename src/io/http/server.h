// Listens on TCP and Unix sockets and turns what strangers send into calls of one handler. Knows
// no route, no authority and no GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "io/http/limits.h"
#include "io/http/loop.h"
#include "io/http/message.h"

namespace gpuyard::http {

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

// Thread: io. The loop outlives it. Destroying it closes every connection; a Reply that is still
// out does nothing then.
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
