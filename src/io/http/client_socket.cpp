// Plain poll(2): one connection needs no event loop.
#include "io/http/client_socket.h"
#include "io/http/tls_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "base/try.h"
#include "io/http/origin.h"
#include "io/http/resolver.h"

namespace gpuyard::http {
namespace {

std::string text_of(const Proxy& proxy) {
  return "the proxy " + Endpoint::tcp(proxy.host, proxy.port).text();
}

}  // namespace

Result<ClientSocket> ClientSocket::connect(const Endpoint& endpoint, TimePoint deadline,
                                           std::string_view from) {
  if (endpoint.kind == Endpoint::Kind::tls) return connect(endpoint.tls->origin, deadline);
  if (endpoint.tunnel != nullptr) {
    auto connection = GPUYARD_TRY(endpoint.tunnel->open());
    return ClientSocket(endpoint, std::move(connection));
  }
  ClientSocket socket(endpoint.text());
  GPUYARD_TRY(socket.open(endpoint, deadline, from));
  return socket;
}

Result<ClientSocket> ClientSocket::connect_plain(const Origin& origin, TimePoint deadline) {
  const Proxy direct{origin.host, origin.port};
  const Proxy& next = origin.proxy ? *origin.proxy : direct;
  const auto addresses = GPUYARD_TRY(resolve(next.host, next.port, deadline));
  ClientSocket socket(origin.proxy ? text_of(next) : origin.text());
  Result<void> opened;
  auto left = static_cast<Duration::rep>(addresses.size());
  for (const Endpoint& address : addresses) {
    // An address that swallows packets leaves time for the next one.
    const TimePoint now = BootClock::now();
    opened = socket.open(address, now + (deadline - now) / left--);
    if (opened) break;
  }
  if (!opened) return std::move(opened).error();
  if (!origin.proxy) return socket;
  if (origin.tls) {
    GPUYARD_TRY(socket.connect_through_proxy(origin, deadline));
  }
  socket.peer_name_ = fmt::format("{} through {}", origin.text(), text_of(next));
  return socket;
}

Result<void> ClientSocket::connect_through_proxy(const Origin& origin, TimePoint deadline) {
  constexpr std::size_t kMaxHeadBytes = std::size_t{16} * 1024;
  constexpr std::size_t kMaxReasonBytes = 100;
  const std::string authority = Endpoint::tcp(origin.host, origin.port).text();
  std::string request = fmt::format("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n", authority);
  if (!origin.proxy->authorization.empty()) {
    request += fmt::format("Proxy-Authorization: {}\r\n", origin.proxy->authorization);
  }
  GPUYARD_TRY(send_raw(request + "\r\n", deadline));
  std::string head;
  while (!head.ends_with("\r\n\r\n")) {
    std::array<char, 1> byte{};  // what follows the head is the origin's
    const auto got = GPUYARD_TRY(receive_raw(byte, deadline));
    if (got == 0) return invalid_response_error("the connection closed before the response");
    if (head.size() == kMaxHeadBytes)
      return invalid_response_error("the response header is too long");
    head += byte[0];
  }
  std::string_view line = std::string_view(head).substr(0, head.find("\r\n"));
  if (line.starts_with("HTTP/1.") && line.size() > 9 && line[9] == '2') return {};
  const std::size_t blank = std::min(line.find(' '), line.size());
  line.remove_prefix(std::min(blank + 1, line.size()));
  return Error{Errc::unavailable,
               fmt::format("{} refused to connect to {}: {}", peer_name_, authority,
                           printable(line.substr(0, kMaxReasonBytes)))};
}

Result<ClientSocket> ClientSocket::connect(const Origin& origin, TimePoint deadline) {
  auto socket = connect_plain(origin, deadline);
  if (!socket || !origin.tls) return socket;
  GPUYARD_TRY(socket->start_tls(TlsClient::make(origin), deadline));
  return socket;
}

Result<PresentedCertificate> ClientSocket::fetch_certificate(const Origin& origin,
                                                             TimePoint deadline) {
  auto socket = GPUYARD_TRY(connect_plain(origin, deadline));
  GPUYARD_TRY(socket.start_tls(TlsClient::make_unverified(origin), deadline));
  return socket.tls_->presented_certificate();
}

Result<void> ClientSocket::start_tls(Result<std::unique_ptr<TlsClient>> tls, TimePoint deadline) {
  if (!tls) return std::move(tls).error();
  tls_ = *std::move(tls);
  for (;;) {
    const auto done = tls_->handshake();
    // Sent after a failure, too: it tells the server that we do not trust it.
    auto sent = send_raw(tls_->take(), deadline);
    if (!done) return done.error();
    if (!sent) return sent;
    if (*done) return {};
    GPUYARD_TRY(feed_tls(deadline));
  }
}

Result<void> ClientSocket::feed_tls(TimePoint deadline) {
  std::array<char, std::size_t{16} * 1024> space;
  const auto got = GPUYARD_TRY(receive_raw(space, deadline));
  if (got == 0)
    return invalid_response_error("the connection closed in the middle of the response");
  tls_->feed({space.data(), got});
  return {};
}

Result<void> ClientSocket::send(std::string_view bytes, TimePoint deadline) {
  if (tls_ == nullptr) return send_raw(bytes, deadline);
  GPUYARD_TRY(tls_->encrypt(bytes));
  return send_raw(tls_->take(), deadline);
}

Result<std::size_t> ClientSocket::receive(std::span<char> space, TimePoint deadline) {
  if (tls_ == nullptr) return receive_raw(space, deadline);
  for (;;) {
    const auto got = GPUYARD_TRY(tls_->decrypt(space));
    if (got) return *got;
    GPUYARD_TRY(send_raw(tls_->take(), deadline));
    GPUYARD_TRY(feed_tls(deadline));
  }
}

Error ClientSocket::connect_error(int code) const {
  const std::string why = std::generic_category().message(code);
  if (code == EACCES || code == EPERM) {
    return Error{Errc::denied, fmt::format("not allowed to connect to {}: {}", peer_name_, why)};
  }
  return Error{Errc::unavailable, fmt::format("nothing is listening at {}", peer_name_), why};
}

Error ClientSocket::invalid_response_error(std::string_view why) const {
  if (tunnel_ != nullptr && tunnel_->has_ended()) return tunnel_->failure_reason();
  return Error{Errc::unavailable, fmt::format("invalid response from {}: {}", peer_name_, why)};
}

Result<void> ClientSocket::wait(short events, TimePoint deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - BootClock::now());
    pollfd entry{descriptor(), events, 0};
    const int timeout = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
    const int ready = left.count() > 0 ? ::poll(&entry, 1, timeout) : 0;
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return connect_error(errno);
    if (BootClock::now() >= deadline) {
      return Error{Errc::timed_out, fmt::format("no response from {} in time", peer_name_)};
    }
  }
}

Result<void> ClientSocket::open(const Endpoint& endpoint, TimePoint deadline,
                                std::string_view from) {
  const auto address = to_socket_address(endpoint);
  if (!address) return address.error();
  socket_.reset(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return connect_error(errno);
  if (!from.empty() && address->family() == AF_UNIX) {
    sockaddr_un own{};
    own.sun_family = AF_UNIX;
    from.copy(own.sun_path + 1, sizeof(own.sun_path) - 1);
    // A failure is ignored: a client without the name is like any other.
    [[maybe_unused]] const int named =
        ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&own),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + from.size()));
  }
  while (::connect(socket_.get(), address->get(), address->length) != 0) {
    if (errno == EINPROGRESS) return finish_connecting(deadline);
    if (errno != EAGAIN && errno != EINTR) return connect_error(errno);
    // A Unix listener's queue is full, and there is nothing to poll for that.
    constexpr int kRetryDelayMs = 5;
    ::poll(nullptr, 0, kRetryDelayMs);
    if (BootClock::now() >= deadline) {
      return Error{Errc::timed_out, fmt::format("{} does not accept connections", peer_name_)};
    }
  }
  return {};
}

Result<void> ClientSocket::finish_connecting(TimePoint deadline) {
  GPUYARD_TRY(wait(POLLOUT, deadline));
  int code = 0;
  socklen_t length = sizeof code;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &code, &length);
  if (code != 0) return connect_error(code);
  return {};
}

Result<void> ClientSocket::send_raw(std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      GPUYARD_TRY(wait(POLLOUT, deadline));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return {};  // refused early; receive() reads why
    } else if (errno != EINTR) {
      return connect_error(errno);
    }
  }
  return {};
}

Result<std::size_t> ClientSocket::receive_raw(std::span<char> space, TimePoint deadline) {
  for (;;) {
    GPUYARD_TRY(wait(POLLIN, deadline));
    const ssize_t got = ::recv(descriptor(), space.data(), space.size(), 0);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EAGAIN && errno != EINTR)
      return invalid_response_error(std::generic_category().message(errno));
  }
}

}  // namespace gpuyard::http
