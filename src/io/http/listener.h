// One listening socket: accepts what comes, up to a limit, and starts a session for each. Inner
// header; includes no Asio.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "io/http/connection_quotas.h"
#include "io/http/content_coding.h"
#include "io/http/endpoint.h"
#include "io/http/limits.h"
#include "io/http/loop.h"
#include "io/http/message.h"
#include "io/http/server.h"
#include "io/http/server_identity.h"

namespace gpuyard::http {

// Shared by all sessions of one server. Sessions may outlive the server by a turn of the loop, so
// they hold it together.
struct ServerContext {
  ServerContext(IoLoop& io_loop, Loop& time_source, Handler requests, const Limits& bounds)
      : io(io_loop), time(time_source), limits(bounds), handler(std::move(requests)) {}

  IoLoop& io;  // what coroutines run on
  Loop& time;  // what deadlines count on; a test has one that stands still
  const Limits limits;
  Handler handler;
  std::vector<std::string> allowed_hosts;
  std::function<uid_t(uid_t)> quota_owner;         // the user behind a uid; empty: itself
  std::function<bool(const Peer&)> is_privileged;  // empty: root and our own user
  // The requests whose peer's process is asked for, which takes a descriptor. Empty: all.
  std::function<bool(const Request&)> process_filter;
  ServerCounters counters;
  GzipCache gzip_cache;  // bodies that several responses share
  std::uint64_t next_request_id = 1;
  ConnectionQuotas quotas{limits};
  HandshakeQuotas handshake_quotas{limits};
  bool closing = false;
  std::function<void()> on_drained;  // called once when closing and the last connection has ended

  void add(Connection& connection);
  void remove(Connection& connection);
  void begin_handshake(Handshake& handshake);
  void end_handshake(Handshake& handshake);
  void begin_stream(Connection& connection);
  void end_stream(Connection& connection);
};

// The facts known of a client when it arrives.
struct IncomingConnection {
  Peer peer;
  QuotaGroup quota_group = {};
  // Opens the peer's process. May be called while the connection is open; see peer.h.
  std::function<std::shared_ptr<const UniqueFd>()> open_process = {};
  std::string local_address;  // the literal it connected to; "" on a Unix socket
  // The names of our certificate, over TLS: no web page can have one of them.
  std::vector<std::string> server_names = {};
  std::shared_ptr<const void> slot;  // held as long as it counts against its listener's limit
};

// The slots of one listener, which has one copy itself: every other copy is a taken slot.
using ConnectionSlots = std::shared_ptr<const int>;

// Gives the incoming connection a slot if there is room, perhaps because another connection was
// ended.
ConnectionQuotas::QuotaDecision acquire_slot(ServerContext& context,
                                             const std::weak_ptr<const int>& slots,
                                             IncomingConnection& incoming);
// Counts the refusal and returns the answer to send.
const std::string& reject_connection(ServerContext& context,
                                     ConnectionQuotas::QuotaDecision decision);
// The bytes of an answer to a connection that gets no session.
std::string rejection_response(int status, std::string_view code, std::string_view why);

// Thread: io.
class Listener {
 public:
  // Takes a client that has come, instead of giving it a slot and a session at once. A function, so
  // that a program whose servers speak no TLS has none of OpenSSL in it.
  using Accept = std::function<void(const std::shared_ptr<ServerContext>&, UniqueFd client,
                                    const ConnectionSlots&, IncomingConnection)>;

  Listener(std::shared_ptr<ServerContext> context, UniqueFd socket, Endpoint bound,
           Accept on_accept);

 private:
  void watch();
  void pause();
  void accept_some();
  bool accept_one();
  bool can_retry_accept(int code);
  void accept_client(UniqueFd client, const SocketAddress& from);
  QuotaGroup quota_group_of(const Peer&, const SocketAddress& from) const;

  std::shared_ptr<ServerContext> context_;
  UniqueFd socket_;
  Endpoint endpoint_;
  const Accept custom_accept_;  // empty: a slot and a session
  ConnectionSlots slots_;
  bool logged_exhaustion_ = false;
  Subscription watch_;
  Subscription retry_timer_;
};

}  // namespace gpuyard::http
