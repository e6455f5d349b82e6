// A blocking client's end of a Unix socket: every step has a deadline. Knows no protocol.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard::kubelet {

// Thread: any, one at a time; every call blocks until its deadline at most, then returns
// Errc::timed_out.
class UnixConnection {
 public:
  // Errc::not_found: no such socket. Errc::denied: its permissions forbid it. Errc::unavailable:
  // nobody listens. Errc::invalid: the path is too long for a socket.
  static Result<UnixConnection> open(const std::string& path, TimePoint deadline);

  // A connection that the peer has closed is no error: receive() says so.
  Result<void> send(std::string_view bytes, TimePoint deadline);
  // Waits for at least one byte and returns how many came; 0: the peer has closed the connection.
  Result<std::size_t> receive(std::span<char> space, TimePoint deadline);

 private:
  explicit UnixConnection(UniqueFd socket) : socket_(std::move(socket)) {}
  Result<void> wait(short events, TimePoint deadline) const;

  UniqueFd socket_;
};

}  // namespace gpuyard::kubelet
