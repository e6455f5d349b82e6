// Plain poll(2): one connection needs no event loop.
#include "http/client_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "http/resolve.h"

namespace gpuyard::http {

Result<ClientSocket> ClientSocket::connect(const Endpoint& endpoint, TimePoint deadline) {
  ClientSocket socket(endpoint.text());
  if (auto opened = socket.open(endpoint, deadline); !opened) return std::move(opened).error();
  return socket;
}

Result<ClientSocket> ClientSocket::connect(const Origin& origin, TimePoint deadline) {
  const auto addresses = resolve(origin.host, origin.port, deadline);
  if (!addresses) return addresses.error();
  ClientSocket socket(origin.text());
  Result<void> opened;
  auto left = static_cast<Duration::rep>(addresses->size());
  for (const Endpoint& address : *addresses) {
    // One that swallows packets leaves time for the next.
    const TimePoint now = BootClock::now();
    opened = socket.open(address, now + (deadline - now) / left--);
    if (opened) break;
  }
  if (!opened) return std::move(opened).error();
  if (!origin.tls) return socket;
  if (auto agreed = socket.start_tls(origin, deadline); !agreed) return std::move(agreed).error();
  return socket;
}

Result<void> ClientSocket::start_tls(const Origin& origin, TimePoint deadline) {
  auto tls = TlsClient::make(origin);
  if (!tls) return std::move(tls).error();
  tls_ = *std::move(tls);
  for (;;) {
    const auto done = tls_->shake_hands();
    // Also what tells the server that we do not trust it.
    auto sent = send_raw(tls_->take(), deadline);
    if (!done) return done.error();
    if (!sent) return sent;
    if (*done) return {};
    if (auto fed = feed_tls(deadline); !fed) return fed;
  }
}

Result<void> ClientSocket::feed_tls(TimePoint deadline) {
  std::array<char, std::size_t{16} * 1024> space;
  const auto got = receive_raw(space, deadline);
  if (!got) return got.error();
  if (*got == 0) return broken("the connection ended in the middle of it");
  tls_->feed({space.data(), *got});
  return {};
}

Result<void> ClientSocket::send(std::string_view bytes, TimePoint deadline) {
  if (tls_ == nullptr) return send_raw(bytes, deadline);
  if (auto encrypted = tls_->encrypt(bytes); !encrypted) return encrypted;
  return send_raw(tls_->take(), deadline);
}

Result<std::size_t> ClientSocket::receive(std::span<char> space, TimePoint deadline) {
  if (tls_ == nullptr) return receive_raw(space, deadline);
  for (;;) {
    const auto got = tls_->decrypt(space);
    if (!got) return got.error();
    if (*got) return **got;
    if (auto sent = send_raw(tls_->take(), deadline); !sent) return std::move(sent).error();
    if (auto fed = feed_tls(deadline); !fed) return std::move(fed).error();
  }
}

Error ClientSocket::fault(int code) const {
  const std::string why = std::generic_category().message(code);
  if (code == EACCES || code == EPERM) {
    return Error{Errc::denied, fmt::format("may not connect to {}: {}", where_, why)};
  }
  return Error{Errc::unavailable, fmt::format("nothing answers at {}: {}", where_, why)};
}

Error ClientSocket::broken(std::string_view why) const {
  return Error{Errc::unavailable, fmt::format("the answer of {} is unusable: {}", where_, why)};
}

Result<void> ClientSocket::wait(short events, TimePoint deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - BootClock::now());
    pollfd entry{socket_.get(), events, 0};
    const int timeout = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
    const int ready = left.count() > 0 ? ::poll(&entry, 1, timeout) : 0;
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fault(errno);
    if (BootClock::now() >= deadline) {
      return Error{Errc::timed_out, fmt::format("no answer from {} in time", where_)};
    }
  }
}

Result<void> ClientSocket::open(const Endpoint& endpoint, TimePoint deadline) {
  const auto address = to_socket_address(endpoint);
  if (!address) return address.error();
  socket_.reset(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return fault(errno);
  while (::connect(socket_.get(), address->get(), address->length) != 0) {
    if (errno == EINPROGRESS) return finish_connecting(deadline);
    if (errno != EAGAIN && errno != EINTR) return fault(errno);
    // A Unix listener's queue is full, and there is nothing to poll for that.
    constexpr int kRetryMilliseconds = 5;
    ::poll(nullptr, 0, kRetryMilliseconds);
    if (BootClock::now() >= deadline) {
      return Error{Errc::timed_out, fmt::format("{} does not accept connections", where_)};
    }
  }
  return {};
}

Result<void> ClientSocket::finish_connecting(TimePoint deadline) {
  if (auto connected = wait(POLLOUT, deadline); !connected) return connected;
  int code = 0;
  socklen_t length = sizeof code;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &code, &length);
  if (code != 0) return fault(code);
  return {};
}

Result<void> ClientSocket::send_raw(std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (auto writable = wait(POLLOUT, deadline); !writable) return writable;
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return {};  // refused early; why is what receive() reads
    } else if (errno != EINTR) {
      return fault(errno);
    }
  }
  return {};
}

Result<std::size_t> ClientSocket::receive_raw(std::span<char> space, TimePoint deadline) {
  for (;;) {
    if (auto readable = wait(POLLIN, deadline); !readable) return std::move(readable).error();
    const ssize_t got = ::recv(socket_.get(), space.data(), space.size(), 0);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EAGAIN && errno != EINTR) return broken(std::generic_category().message(errno));
  }
}

}  // namespace gpuyard::http
