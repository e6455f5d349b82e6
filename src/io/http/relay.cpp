// The far end of a tunnel's connection. Descriptors of others, such as a terminal, keep their mode:
// nothing is read or written before poll(2) says that it does not block.
#include "io/http/relay.h"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>

#include <fmt/format.h>

#include "base/try.h"
#include "io/http/client_socket.h"
#include "io/http/tunnel.h"

namespace gpuyard::http {
namespace {

// The prefix of the name of a relay's own socket; a unique text follows it.
constexpr std::string_view kRelayNamePrefix = "gpuyard-dial-stdio ";

// One direction: at most one piece is under way.
class Flow {
 public:
  Flow(int from, int to) : from_(from), to_(to) {}

  bool can_read() const { return !ended_ && pending_.empty(); }
  bool can_write() const { return !pending_.empty(); }
  bool has_ended() const { return ended_; }  // nothing more will be read
  bool is_over() const { return ended_ && pending_.empty(); }

  void put(std::string_view text) { pending_ = text; }

  void read() {
    const ssize_t got = ::read(from_, space_.data(), space_.size());
    if (got > 0) pending_ = {space_.data(), static_cast<std::size_t>(got)};
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) ended_ = true;
  }

  void write() {
    ssize_t sent = ::send(to_, pending_.data(), pending_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == ENOTSOCK) {
      // A pipe that is ready takes this much without blocking.
      sent = ::write(to_, pending_.data(), std::min<std::size_t>(pending_.size(), PIPE_BUF));
    }
    if (sent >= 0) {
      pending_.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      pending_ = {};  // nobody takes it any more
      ended_ = true;
    }
  }

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{32} * 1024;

  int from_;
  int to_;
  std::array<char, kBufferBytes> space_;
  std::string_view pending_;  // of space_, or what was put
  bool ended_ = false;
};

class Relay {
 public:
  Relay(int in, int out, UniqueFd server, const RelayLimits& limits)
      : in_(in),
        out_(out),
        server_(std::move(server)),
        limits_(limits),
        to_server_(in, server_.get()),
        to_client_(server_.get(), out) {
    to_client_.put(kGreeting);
  }

  void run() {
    while (!to_client_.is_over()) {
      update_ends();
      std::array<pollfd, 3> polled = poll_set();
      const int count = ::poll(polled.data(), polled.size(), poll_timeout_ms());
      if (count < 0 && errno != EINTR) return;
      // Received bytes put off the idle timeout, but not the drain timeout.
      if ((count <= 0 || drain_deadline_) && BootClock::now() >= deadline()) return;
      if (count <= 0) continue;
      last_byte_at_ = BootClock::now();
      if ((polled[2].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return;  // nobody reads
      if (polled[0].revents != 0) to_server_.read();
      if (to_server_.can_write() && polled[1].revents != 0) to_server_.write();
      if (to_client_.can_read() && (polled[1].revents & ~POLLOUT) != 0) to_client_.read();
      if (to_client_.can_write() && polled[2].revents != 0) to_client_.write();
    }
  }

 private:
  void update_ends() {
    if (to_server_.is_over() && !half_closed_) {
      half_closed_ = true;
      ::shutdown(server_.get(), SHUT_WR);
    }
    if ((to_server_.is_over() || to_client_.has_ended()) && !drain_deadline_) {
      drain_deadline_ = BootClock::now() + limits_.drain_timeout;
    }
  }

  // `out` is always polled, because the end of its reader may show nowhere else. The server is
  // polled only for reads or writes that can happen: its end would wake poll() again and again.
  std::array<pollfd, 3> poll_set() const {
    const auto if_any = [](int fd, int events) {
      return pollfd{events != 0 ? fd : -1, static_cast<short>(events), 0};
    };
    const int of_server =
        (to_client_.can_read() ? POLLIN : 0) | (to_server_.can_write() ? POLLOUT : 0);
    return {if_any(in_, to_server_.can_read() ? POLLIN : 0), if_any(server_.get(), of_server),
            pollfd{out_, static_cast<short>(to_client_.can_write() ? POLLOUT : 0), 0}};
  }

  TimePoint deadline() const {
    const TimePoint silent = last_byte_at_ + limits_.idle_timeout;
    return drain_deadline_ ? std::min(*drain_deadline_, silent) : silent;
  }

  int poll_timeout_ms() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline() - BootClock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
  }

  int in_;
  int out_;
  UniqueFd server_;
  const RelayLimits limits_;
  Flow to_server_;
  Flow to_client_;
  TimePoint last_byte_at_ = BootClock::now();
  std::optional<TimePoint> drain_deadline_;
  bool half_closed_ = false;  // the server knows that no request follows
};

}  // namespace

bool is_relay(const SocketAddress& client) {
  const auto& address = reinterpret_cast<const sockaddr_un&>(client.storage);
  constexpr std::size_t kName = offsetof(sockaddr_un, sun_path) + 1;
  if (client.family() != AF_UNIX || client.length < kName + kRelayNamePrefix.size()) return false;
  return address.sun_path[0] == '\0' &&
         std::string_view(address.sun_path + 1, kRelayNamePrefix.size()) == kRelayNamePrefix;
}

Result<void> relay(const Endpoint& server, int in, int out, const RelayLimits& limits) {
  const TimePoint now = BootClock::now();
  const auto name =
      fmt::format("{}{} {}", kRelayNamePrefix, ::getpid(), now.time_since_epoch().count());
  auto connected = GPUYARD_TRY(ClientSocket::connect(server, now + limits.connect_timeout, name));
  Relay(in, out, connected.release_socket(), limits).run();
  return {};
}

}  // namespace gpuyard::http
