#include "io/http/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/log.h"
#include "io/http/message.h"
#include "io/http/peer.h"
#include "io/http/relay.h"
#include "io/http/response_stream_sender.h"
#include "io/http/session.h"

namespace gpuyard::http {
namespace {

constexpr int kAcceptsPerTurn = limits::kMaxAcceptsPerTurn;  // then other connections get theirs
constexpr Duration kAcceptRetryDelay = std::chrono::milliseconds(100);

Peer peer_of(const UniqueFd& client, const SocketAddress& from, const Endpoint& listener) {
  Peer peer;
  peer.listener = listener.text();
  if (listener.kind == Endpoint::Kind::tcp) {
    peer.address = from_socket_address(from).text();
    return peer;
  }
  peer.kind = Peer::Kind::unix_socket;
  peer.relayed = is_relay(from);
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0) {
    peer.uid = credentials.uid;
    peer.gid = credentials.gid;
    peer.groups = peer_groups(client.get(), credentials.gid);
    peer.pid = credentials.pid;
    if (!has_peer_pidfd()) peer.process = peer_process(client.get(), credentials.pid);
  }
  return peer;
}

// The address of a TCP client; for IPv6, the network that one subscriber has.
std::string network_of(const SocketAddress& from) {
  const Endpoint endpoint = from_socket_address(from);
  if (from.family() != AF_INET6) return endpoint.address;
  in6_addr address = reinterpret_cast<const sockaddr_in6*>(&from.storage)->sin6_addr;
  constexpr std::size_t kNetworkBytes = 8;
  std::fill(address.s6_addr + kNetworkBytes, std::end(address.s6_addr), std::uint8_t{0});
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(AF_INET6, &address, text.data(), text.size()) != nullptr ? text.data()
                                                                              : endpoint.address;
}

}  // namespace

std::string rejection_response(int status, std::string_view code, std::string_view why) {
  Response response = error_response(status, code, why);
  std::string bytes;
  put_head(bytes, response, {.keep_alive = false});
  return bytes + *response.body;
}

const std::string& reject_connection(ServerContext& context,
                                     ConnectionQuotas::QuotaDecision decision) {
  static const std::string full =
      rejection_response(503, "busy", "too many connections are open; try again later");
  static const std::string own_full = rejection_response(
      503, "busy",
      "you have reached the maximum number of open connections; close some, or try again later");
  ++context.counters.refused;
  return decision == ConnectionQuotas::QuotaDecision::group_full ? own_full : full;
}

ConnectionQuotas::QuotaDecision acquire_slot(ServerContext& context,
                                             const std::weak_ptr<const int>& slots,
                                             IncomingConnection& incoming) {
  ConnectionSlots slot = slots.lock();
  if (!slot) return ConnectionQuotas::QuotaDecision::server_full;  // nobody listens any more
  const long taken = slot.use_count() - 2;  // without the listener's copy and this one
  const auto decision = context.quotas.admit(incoming.quota_group, slot.get(),
                                             static_cast<std::size_t>(std::max(taken, 0L)));
  if (decision == ConnectionQuotas::QuotaDecision::admitted) incoming.slot = std::move(slot);
  return decision;
}

Listener::Listener(std::shared_ptr<ServerContext> context, UniqueFd socket, Endpoint bound,
                   Accept on_accept)
    : context_(std::move(context)),
      socket_(std::move(socket)),
      endpoint_(std::move(bound)),
      custom_accept_(std::move(on_accept)),
      slots_(std::make_shared<const int>(0)) {
  watch();
}

void Listener::watch() {
  watch_ = context_->io.watch(socket_.get(), [this] { accept_some(); });
  if (!watch_) pause();  // watching needs a descriptor, too
}

void Listener::pause() {
  watch_.reset();  // the socket stays readable, so watching it would only spin
  retry_timer_ = context_->io.call_after(kAcceptRetryDelay, [this] { watch(); });
}

void Listener::accept_some() {
  const TimePoint end = BootClock::now() + TurnScheduler::kTurnBudget;
  for (int i = 0; i < kAcceptsPerTurn && BootClock::now() < end; ++i) {
    if (!accept_one()) return;
  }
}

bool Listener::accept_one() {
  SocketAddress from;
  from.length = sizeof from.storage;
  UniqueFd client(::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.length,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client) return can_retry_accept(errno);
  logged_exhaustion_ = false;
  accept_client(std::move(client), from);
  return true;
}

// Whether trying again at once makes sense.
bool Listener::can_retry_accept(int code) {
  if (code == EAGAIN) return false;
  // The connection itself was bad: accept(2) passes its network's errors on.
  const bool exhausted = code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
  if (!exhausted) return code != EBADF && code != EINVAL && code != ENOTSOCK;
  if (!std::exchange(logged_exhaustion_, true)) {
    log::warning("cannot accept connections on {}: {}; retrying every {} ms", endpoint_.text(),
                 std::generic_category().message(code), to_milliseconds(kAcceptRetryDelay));
  }
  pause();
  return false;
}

void Listener::accept_client(UniqueFd client, const SocketAddress& from) {
  IncomingConnection incoming;
  incoming.peer = peer_of(client, from, endpoint_);
  incoming.quota_group = quota_group_of(incoming.peer, from);
  incoming.peer.quota_group = incoming.quota_group.name;
  if (endpoint_.kind == Endpoint::Kind::unix_socket && has_peer_pidfd()) {
    incoming.open_process = [socket = client.get(), pid = incoming.peer.pid] {
      return peer_process(socket, pid);
    };
  }
  if (endpoint_.kind == Endpoint::Kind::tcp) {
    // The address of the connection, not of the listener, which may be bound to every address.
    incoming.local_address = local_endpoint(client).value_or(Endpoint()).address;
    const int on = 1;
    ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  if (custom_accept_)
    return custom_accept_(context_, std::move(client), slots_, std::move(incoming));
  const ConnectionQuotas::QuotaDecision decision = acquire_slot(*context_, slots_, incoming);
  if (decision == ConnectionQuotas::QuotaDecision::admitted) {
    return begin_socket_session(context_, std::move(client), std::move(incoming));
  }
  const std::string& response = reject_connection(*context_, decision);
  // Sends only what goes without waiting; the client may also just see the connection end.
  ::send(client.get(), response.data(), response.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

QuotaGroup Listener::quota_group_of(const Peer& peer, const SocketAddress& from) const {
  if (peer.kind == Peer::Kind::tcp) return {network_of(from), false};
  const uid_t owner = context_->quota_owner ? context_->quota_owner(peer.uid) : peer.uid;
  const bool ours = peer.uid == 0 || peer.uid == ::geteuid();
  return {fmt::format("uid {}", owner),
          context_->is_privileged ? context_->is_privileged(peer) : ours};
}

void ServerContext::add(Connection& connection) {
  quotas.add(connection);
  counters.active = quotas.all().size();
}

void ServerContext::remove(Connection& connection) {
  quotas.remove(connection);
  counters.active = quotas.all().size();
  counters.streams = quotas.streams();
  if (!quotas.all().empty()) return;
  if (auto callback = std::exchange(on_drained, nullptr)) io.post(std::move(callback));
}

void ServerContext::begin_handshake(Handshake& handshake) {
  handshake_quotas.add(handshake);
  counters.handshakes = handshake_quotas.size();
}

void ServerContext::end_handshake(Handshake& handshake) {
  handshake_quotas.remove(handshake);
  counters.handshakes = handshake_quotas.size();
}

void ServerContext::begin_stream(Connection& connection) {
  quotas.begin_stream(connection);
  counters.streams = quotas.streams();
}

void ServerContext::end_stream(Connection& connection) {
  quotas.end_stream(connection);
  counters.streams = quotas.streams();
}

}  // namespace gpuyard::http
