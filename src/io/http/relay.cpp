// The far end of a carried connection. Descriptors of others, such as a terminal, keep their mode:
// nothing is read or written before poll(2) says that it does not block.
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

#include "io/http/client_socket.h"
#include "io/http/tunnel.h"

namespace gpuyard::http {
namespace {

// How a relay's own end is called; what follows is to be unique.
constexpr std::string_view kRelays = "gpuyard-dial-stdio ";

// One direction: at most one piece is under way.
class Flow {
 public:
  Flow(int from, int to) : from_(from), to_(to) {}

  bool may_read() const { return !ended_ && left_.empty(); }
  bool may_write() const { return !left_.empty(); }
  bool ended() const { return ended_; }  // nothing more will be read
  bool is_over() const { return ended_ && left_.empty(); }

  void put(std::string_view text) { left_ = text; }

  void read() {
    const ssize_t got = ::read(from_, space_.data(), space_.size());
    if (got > 0) left_ = {space_.data(), static_cast<std::size_t>(got)};
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) ended_ = true;
  }

  void write() {
    ssize_t sent = ::send(to_, left_.data(), left_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == ENOTSOCK) {
      // A pipe that is ready takes this much without blocking.
      sent = ::write(to_, left_.data(), std::min<std::size_t>(left_.size(), PIPE_BUF));
    }
    if (sent >= 0) {
      left_.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      left_ = {};  // nobody takes it any more
      ended_ = true;
    }
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{32} * 1024;

  int from_;
  int to_;
  std::array<char, kPiece> space_;
  std::string_view left_;  // of space_, or what was put
  bool ended_ = false;
};

class Relay {
 public:
  Relay(int in, int out, UniqueFd server, const RelayLimits& limits)
      : in_(in),
        out_(out),
        server_(std::move(server)),
        limits_(limits),
        there_(in, server_.get()),
        back_(server_.get(), out) {
    back_.put(kGreeting);
  }

  void run() {
    while (!back_.is_over()) {
      note_ends();
      std::array<pollfd, 3> polled = wishes();
      const int count = ::poll(polled.data(), polled.size(), patience());
      if (count < 0 && errno != EINTR) return;
      // Bytes that come put off the end by silence, but not the one after the last words.
      if ((count <= 0 || ends_) && BootClock::now() >= until()) return;
      if (count <= 0) continue;
      heard_ = BootClock::now();
      if ((polled[2].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return;  // nobody reads
      if (polled[0].revents != 0) there_.read();
      if (there_.may_write() && polled[1].revents != 0) there_.write();
      if (back_.may_read() && (polled[1].revents & ~POLLOUT) != 0) back_.read();
      if (back_.may_write() && polled[2].revents != 0) back_.write();
    }
  }

 private:
  void note_ends() {
    if (there_.is_over() && !told_) {
      told_ = true;
      ::shutdown(server_.get(), SHUT_WR);
    }
    if ((there_.is_over() || back_.ended()) && !ends_) {
      ends_ = BootClock::now() + limits_.last_words;
    }
  }

  // `out` is always looked at: the end of its reader may show nowhere else. The server is not while
  // nothing is wanted of it: its end would wake us in a circle.
  std::array<pollfd, 3> wishes() const {
    const auto if_any = [](int fd, int events) {
      return pollfd{events != 0 ? fd : -1, static_cast<short>(events), 0};
    };
    const int of_server = (back_.may_read() ? POLLIN : 0) | (there_.may_write() ? POLLOUT : 0);
    return {if_any(in_, there_.may_read() ? POLLIN : 0), if_any(server_.get(), of_server),
            pollfd{out_, static_cast<short>(back_.may_write() ? POLLOUT : 0), 0}};
  }

  TimePoint until() const {
    const TimePoint silent = heard_ + limits_.silence;
    return ends_ ? std::min(*ends_, silent) : silent;
  }

  int patience() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until() - BootClock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
  }

  int in_;
  int out_;
  UniqueFd server_;
  const RelayLimits limits_;
  Flow there_;
  Flow back_;
  TimePoint heard_ = BootClock::now();
  std::optional<TimePoint> ends_;
  bool told_ = false;  // the server knows that no request follows
};

}  // namespace

bool is_relay(const SocketAddress& client) {
  const auto& address = reinterpret_cast<const sockaddr_un&>(client.storage);
  constexpr std::size_t kName = offsetof(sockaddr_un, sun_path) + 1;
  if (client.family() != AF_UNIX || client.length < kName + kRelays.size()) return false;
  return address.sun_path[0] == '\0' &&
         std::string_view(address.sun_path + 1, kRelays.size()) == kRelays;
}

Result<void> relay(const Endpoint& server, int in, int out, const RelayLimits& limits) {
  const TimePoint now = BootClock::now();
  const auto name = fmt::format("{}{} {}", kRelays, ::getpid(), now.time_since_epoch().count());
  auto connected = ClientSocket::connect(server, now + limits.connecting, name);
  if (!connected) return std::move(connected).error();
  Relay(in, out, connected->release_socket(), limits).run();
  return {};
}

}  // namespace gpuyard::http
