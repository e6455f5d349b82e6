#include "io/http/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "base/try.h"
#include "io/http/origin.h"
#include "io/http/tunnel.h"

namespace gpuyard::http {
namespace {

Error endpoint_error(std::string_view text) {
  return Error{
      Errc::invalid,
      fmt::format("expected an address and port such as 127.0.0.1:9410 or [::1]:9410, or a "
                  "socket path; got \"{}\"",
                  printable(text))};
}

Result<SocketAddress> unix_address(const std::string& path) {
  if (path.empty() || path.size() > kMaxUnixPath || path.find('\0') != path.npos) {
    return Error{Errc::invalid,
                 fmt::format("expected a socket path of 1 to {} bytes; got \"{}\", {} bytes",
                             kMaxUnixPath, printable(path), path.size())};
  }
  SocketAddress address;
  auto& un = reinterpret_cast<sockaddr_un&>(address.storage);
  un.sun_family = AF_UNIX;
  std::memcpy(un.sun_path, path.c_str(), path.size() + 1);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

Result<SocketAddress> tcp_address(const Endpoint& endpoint) {
  SocketAddress address;
  auto& four = reinterpret_cast<sockaddr_in&>(address.storage);
  if (::inet_pton(AF_INET, endpoint.address.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(endpoint.port);
    address.length = sizeof four;
    return address;
  }
  auto& six = reinterpret_cast<sockaddr_in6&>(address.storage);
  if (::inet_pton(AF_INET6, endpoint.address.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(endpoint.port);
    address.length = sizeof six;
    return address;
  }
  return Error{Errc::invalid,
               fmt::format("expected an IPv4 or IPv6 address, not a host name; got \"{}\"",
                           printable(endpoint.address))};
}

}  // namespace

bool is_loopback(const std::string& name) {
  in_addr four{};
  if (::inet_pton(AF_INET, name.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, name.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

Endpoint Endpoint::tcp(std::string address, std::uint16_t port) {
  return Endpoint{Kind::tcp, std::move(address), port, ""};
}

Endpoint Endpoint::unix_socket(std::string path) {
  return Endpoint{Kind::unix_socket, "", 0, std::move(path)};
}

Endpoint Endpoint::through_tunnel(std::shared_ptr<Tunnel> by) {
  return Endpoint{Kind::tunnel, "", 0, "", std::move(by)};
}

Endpoint Endpoint::over_tls(HttpsEndpoint https) {
  return Endpoint{Kind::tls, "",      0,
                  "",        nullptr, std::make_shared<const HttpsEndpoint>(std::move(https))};
}

std::string Endpoint::text() const {
  if (kind == Kind::tls) return tls->url();
  if (kind == Kind::unix_socket) return path;
  if (kind == Kind::tunnel) return tunnel->name();
  const bool six = address.find(':') != address.npos;
  return six ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  constexpr std::string_view kUnix = "unix:";
  constexpr std::string_view kUrl = "http://";  // as the daemon prints where it listens
  if (text.starts_with(kUrl)) {
    text.remove_prefix(kUrl.size());
    if (text.ends_with('/')) text.remove_suffix(1);
    if (text.find('/') != text.npos) return endpoint_error(text);
  }
  Endpoint endpoint;
  if (text.starts_with(kUnix) || text.find('/') != text.npos) {
    if (text.starts_with(kUnix)) text.remove_prefix(kUnix.size());
    endpoint = Endpoint::unix_socket(std::string(text));
  } else {
    const std::size_t colon = text.rfind(':');
    if (colon == text.npos) return endpoint_error(text);
    std::string_view address = text.substr(0, colon);
    const bool brackets = address.starts_with('[') && address.ends_with(']');
    if (!brackets && address.find(':') != address.npos) return endpoint_error(text);
    if (brackets) address = address.substr(1, address.size() - 2);
    const auto port = parse_number<std::uint16_t>(text.substr(colon + 1));
    if (!port) return endpoint_error(text);
    endpoint = Endpoint::tcp(std::string(address), *port);
  }
  GPUYARD_TRY(to_socket_address(endpoint));
  return endpoint;
}

Result<SocketAddress> to_socket_address(const Endpoint& endpoint) {
  switch (endpoint.kind) {
    case Endpoint::Kind::tcp:
      return tcp_address(endpoint);
    case Endpoint::Kind::unix_socket:
      return unix_address(endpoint.path);
    case Endpoint::Kind::tunnel:
    case Endpoint::Kind::tls:
      break;
  }
  return Error{Errc::invalid, endpoint.text() + " is not an address of this machine"};
}

Endpoint from_socket_address(const SocketAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.family() == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address.storage);
    ::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
    return Endpoint::tcp(text.data(), ntohs(four.sin_port));
  }
  if (address.family() == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address.storage);
    ::inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
    return Endpoint::tcp(text.data(), ntohs(six.sin6_port));
  }
  const auto& un = reinterpret_cast<const sockaddr_un&>(address.storage);
  const std::size_t start = offsetof(sockaddr_un, sun_path);
  const std::size_t length = address.length > start ? address.length - start : 0;
  return Endpoint::unix_socket(std::string(un.sun_path, ::strnlen(un.sun_path, length)));
}

std::optional<Endpoint> local_endpoint(const UniqueFd& socket) {
  SocketAddress local;
  local.length = sizeof local.storage;
  auto* const space = reinterpret_cast<sockaddr*>(&local.storage);
  if (::getsockname(socket.get(), space, &local.length) != 0) return std::nullopt;
  return from_socket_address(local);
}

}  // namespace gpuyard::http
