#include "io/kubelet/unix_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <utility>

#include "base/try.h"

namespace gpuyard::kubelet {
namespace {

// The queue of a Unix listener is full, and there is nothing to poll for that.
constexpr int kConnectRetryDelayMs = 5;

Error timed_out_error() {
  return Error{Errc::timed_out, "no response in time"};
}

Error connect_error(int code) {
  std::string why = std::generic_category().message(code);
  if (code == ENOENT || code == ENOTDIR) return Error{Errc::not_found, "the socket does not exist"};
  if (code == EACCES || code == EPERM) {
    return Error{Errc::denied, "not allowed to connect", std::move(why)};
  }
  return Error{Errc::unavailable, "nothing is listening", std::move(why)};
}

Error connection_error(int code) {
  return Error{Errc::unavailable, "the connection failed", std::generic_category().message(code)};
}

}  // namespace

Result<UnixConnection> UnixConnection::open(const std::string& path, TimePoint deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Error{Errc::invalid, "the path is too long for a socket"};
  }
  path.copy(address.sun_path, path.size());
  UnixConnection connection(
      UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
  if (!connection.socket_) return connection_error(errno);
  while (::connect(connection.socket_.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof address) != 0) {
    if (errno != EAGAIN && errno != EINTR) return connect_error(errno);
    if (BootClock::now() >= deadline) return timed_out_error();
    ::poll(nullptr, 0, kConnectRetryDelayMs);
  }
  return connection;
}

Result<void> UnixConnection::wait(short events, TimePoint deadline) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - BootClock::now());
    if (left.count() <= 0) return timed_out_error();
    pollfd entry{socket_.get(), events, 0};
    const int timeout = static_cast<int>(std::min<std::int64_t>(left.count(), 1'000'000));
    const int ready = ::poll(&entry, 1, timeout);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return connection_error(errno);
  }
}

Result<void> UnixConnection::send(std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      GPUYARD_TRY(wait(POLLOUT, deadline));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return {};
    } else if (errno != EINTR) {
      return connection_error(errno);
    }
  }
  return {};
}

Result<std::size_t> UnixConnection::receive(std::span<char> space, TimePoint deadline) {
  for (;;) {
    // First, so that a peer that never stops sending does not outlast the deadline.
    GPUYARD_TRY(wait(POLLIN, deadline));
    const ssize_t got = ::recv(socket_.get(), space.data(), space.size(), 0);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == ECONNRESET) return std::size_t{0};
    if (errno != EAGAIN && errno != EINTR) return connection_error(errno);
  }
}

}  // namespace gpuyard::kubelet
