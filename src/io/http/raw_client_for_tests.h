// Shared by the tests of this folder: a real loop with a short timeout, and raw client sockets.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"
#include "base/unique_fd.h"
#include "io/http/endpoint.h"
#include "io/http/loop.h"

namespace gpuyard::http {

// Far longer than anything here takes; reached only by a test that fails.
inline constexpr Duration kTestTimeout = std::chrono::seconds(20);

// The client end of a real connection, on the same loop as the server.
class RawClient {
 public:
  RawClient(IoLoop& loop, const Endpoint& endpoint) : loop_(loop) {
    const auto address = to_socket_address(endpoint);
    socket_.reset(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    connected_ = ::connect(socket_.get(), address->get(), address->length) == 0;
    if (connected_) watch_ = loop_.watch(socket_.get(), [this] { pull(); });
  }

  bool connected() const { return connected_; }
  const UniqueFd& socket() const { return socket_; }
  void close() {
    watch_.reset();
    socket_.reset();
  }

  void send(std::string_view bytes) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    EXPECT_EQ(sent, static_cast<ssize_t>(bytes.size()));
  }

  // Turns the loop until `text` has come, or the connection has ended; returns all that came.
  std::string receive(std::string_view text) {
    const bool came = loop_.run_until(
        [&] { return ended_ || received_.find(text) != received_.npos; }, kTestTimeout);
    EXPECT_TRUE(came) << "received only: " << received_;
    return received_;
  }
  std::string receive_all() {
    EXPECT_TRUE(loop_.run_until([&] { return ended_; }, kTestTimeout));
    return received_;
  }
  bool ended() const { return ended_; }
  // Returns the bytes received since the last call.
  std::string take_received() { return std::exchange(received_, {}); }

 private:
  void pull() {
    char chunk[4096];
    for (;;) {
      const ssize_t got = ::recv(socket_.get(), chunk, sizeof chunk, MSG_DONTWAIT);
      if (got > 0) received_.append(chunk, static_cast<std::size_t>(got));
      if (got > 0) continue;
      ended_ = got == 0 || errno != EAGAIN;
      if (ended_) watch_.reset();
      return;
    }
  }

  IoLoop& loop_;
  UniqueFd socket_;
  bool connected_ = false;
  std::string received_;
  bool ended_ = false;
  Subscription watch_;
};

}  // namespace gpuyard::http
