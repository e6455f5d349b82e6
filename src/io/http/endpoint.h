// Where a server listens or a client connects: a Unix socket's path, or a literal address and port.
// Names are never resolved: a resolver can hang, and a listener's address must not change by DNS. A
// client may also have a Tunnel, which leads to another machine.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard::http {

class Tunnel;
struct HttpsEndpoint;

struct Endpoint {
  enum class Kind { tcp, unix_socket, tunnel, tls };
  Kind kind = Kind::tcp;
  std::string address;  // "127.0.0.1", "::1" without brackets; tcp only
  std::uint16_t port = 0;
  std::string path;  // unix_socket only
  // tunnel only. Copies of the endpoint share it, and with it the connection that it keeps.
  std::shared_ptr<Tunnel> tunnel = nullptr;
  std::shared_ptr<const HttpsEndpoint> tls = nullptr;  // tls only; see origin.h

  static Endpoint tcp(std::string address, std::uint16_t port);
  static Endpoint unix_socket(std::string path);
  static Endpoint through_tunnel(std::shared_ptr<Tunnel> by);
  static Endpoint over_tls(HttpsEndpoint);
  // Whether it leads to another machine, or may.
  bool is_remote() const { return kind == Kind::tunnel || kind == Kind::tls; }

  // "127.0.0.1:9410", "[::1]:9410", "/run/gpuyard/gpuyard.sock"; of a tunnel, its name; a URL
  std::string text() const;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// "127.0.0.1:9410", "[::1]:9410", "/run/gpuyard/gpuyard.sock" or "unix:/run/gpuyard/gpuyard.sock".
// Errc::invalid, with what is expected, for anything else.
Result<Endpoint> parse_endpoint(std::string_view text);

// Whether a literal address is of this machine alone.
bool is_loopback(const std::string& address);

// An endpoint as the kernel takes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

// Errc::invalid for an address that is no literal, for a path longer than kMaxUnixPath, and for an
// endpoint behind a tunnel.
inline constexpr std::size_t kMaxUnixPath = 107;
Result<SocketAddress> to_socket_address(const Endpoint&);
Endpoint from_socket_address(const SocketAddress&);
// Our own end of a socket; nothing if the kernel does not say.
std::optional<Endpoint> local_endpoint(const UniqueFd& socket);

}  // namespace gpuyard::http
