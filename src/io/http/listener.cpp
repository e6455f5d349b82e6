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
#include "io/http/response_stream_sender.h"
#include "io/http/session.h"
#include "io/http/tunnel.h"

namespace gpuyard::http {
namespace {

constexpr int kAcceptsPerTurn = shares::kAccepts;  // then other connections get theirs
constexpr Duration kPause = std::chrono::milliseconds(100);

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
    if (!knows_peer_process()) peer.process = peer_process(client.get(), credentials.pid);
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

std::string last_words(int status, std::string_view code, std::string_view why) {
  Response response = error_response(status, code, why);
  std::string bytes;
  put_head(bytes, response, {.keep_alive = false});
  return bytes + *response.body;
}

const std::string& refuse_seat(Site& site, Parties::Room room) {
  static const std::string full =
      last_words(503, "busy", "too many connections are open; try again later");
  static const std::string own_full = last_words(
      503, "busy",
      "you have reached the maximum number of open connections; close some, or try again later");
  ++site.counters.refused;
  return room == Parties::Room::own ? own_full : full;
}

Parties::Room take_seat(Site& site, const std::weak_ptr<const int>& seats, Arrival& arrival) {
  Seats seat = seats.lock();
  if (!seat) return Parties::Room::nobody;  // nobody listens any more
  const long taken = seat.use_count() - 2;  // without the listener's copy and this one
  const auto room = site.parties.room_for(arrival.party, seat.get(),
                                          static_cast<std::size_t>(std::max(taken, 0L)));
  if (room == Parties::Room::there) arrival.seat = std::move(seat);
  return room;
}

Listener::Listener(std::shared_ptr<Site> site, UniqueFd socket, Endpoint bound, Welcome welcome)
    : site_(std::move(site)),
      socket_(std::move(socket)),
      bound_(std::move(bound)),
      other_welcome_(std::move(welcome)),
      seats_(std::make_shared<const int>(0)) {
  watch();
}

void Listener::watch() {
  watch_ = site_->io.watch(socket_.get(), [this] { accept_some(); });
  if (!watch_) pause();  // watching needs a descriptor, too
}

void Listener::pause() {
  watch_.reset();  // the socket stays readable, so watching it would only spin
  pause_ = site_->io.call_after(kPause, [this] { watch(); });
}

void Listener::accept_some() {
  const TimePoint end = BootClock::now() + Turns::kTogether;
  for (int i = 0; i < kAcceptsPerTurn && BootClock::now() < end; ++i) {
    if (!accept_one()) return;
  }
}

bool Listener::accept_one() {
  SocketAddress from;
  from.length = sizeof from.storage;
  UniqueFd client(::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.length,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client) return cannot_accept(errno);
  said_exhausted_ = false;
  welcome(std::move(client), from);
  return true;
}

// Whether trying again at once makes sense.
bool Listener::cannot_accept(int code) {
  if (code == EAGAIN) return false;
  // The connection itself was bad: accept(2) passes its network's errors on.
  const bool exhausted = code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
  if (!exhausted) return code != EBADF && code != EINVAL && code != ENOTSOCK;
  if (!std::exchange(said_exhausted_, true)) {
    log::warning("cannot accept connections on {}: {}; retrying every {} ms", bound_.text(),
                 std::generic_category().message(code), to_milliseconds(kPause));
  }
  pause();
  return false;
}

void Listener::welcome(UniqueFd client, const SocketAddress& from) {
  Arrival arrival;
  arrival.peer = peer_of(client, from, bound_);
  arrival.party = party_of(arrival.peer, from);
  arrival.peer.party = arrival.party.name;
  if (bound_.kind == Endpoint::Kind::unix_socket && knows_peer_process()) {
    arrival.open_process = [socket = client.get(), pid = arrival.peer.pid] {
      return peer_process(socket, pid);
    };
  }
  if (bound_.kind == Endpoint::Kind::tcp) {
    // The address of the connection, not of the listener, which may be bound to every address.
    arrival.local_address = local_endpoint(client).value_or(Endpoint()).address;
    const int on = 1;
    ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  if (other_welcome_) return other_welcome_(site_, std::move(client), seats_, std::move(arrival));
  const Parties::Room room = take_seat(*site_, seats_, arrival);
  if (room == Parties::Room::there) {
    return serve_socket(site_, std::move(client), std::move(arrival));
  }
  const std::string& answer = refuse_seat(*site_, room);
  // Sends only what goes without waiting; the client may also just see the connection end.
  ::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

Party Listener::party_of(const Peer& peer, const SocketAddress& from) const {
  if (peer.kind == Peer::Kind::tcp) return {network_of(from), false};
  const uid_t person = site_->person ? site_->person(peer.uid) : peer.uid;
  const bool ours = peer.uid == 0 || peer.uid == ::geteuid();
  return {fmt::format("uid {}", person), site_->privileged ? site_->privileged(peer) : ours};
}

void Site::add(Connection& connection) {
  parties.add(connection);
  counters.active = parties.all().size();
}

void Site::remove(Connection& connection) {
  parties.remove(connection);
  counters.active = parties.all().size();
  counters.streams = parties.streams();
  if (!parties.all().empty()) return;
  if (auto done = std::exchange(drained, nullptr)) io.post(std::move(done));
}

void Site::begin_handshake(Handshake& handshake) {
  handshakes.add(handshake);
  counters.handshakes = handshakes.size();
}

void Site::end_handshake(Handshake& handshake) {
  handshakes.remove(handshake);
  counters.handshakes = handshakes.size();
}

void Site::begin_stream(Connection& connection) {
  parties.begin_stream(connection);
  counters.streams = parties.streams();
}

void Site::end_stream(Connection& connection) {
  parties.end_stream(connection);
  counters.streams = parties.streams();
}

}  // namespace gpuyard::http
