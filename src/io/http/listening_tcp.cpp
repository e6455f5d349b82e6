#include "http/listening.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include <fmt/format.h>

#include "base/files.h"

namespace gpuyard::http {
namespace {

void set_option(const UniqueFd& socket, int level, int option) {
  const int on = 1;
  ::setsockopt(socket.get(), level, option, &on, sizeof on);
}

Error why_not(const Endpoint& endpoint) {
  if (errno == EADDRINUSE) {
    return Error{Errc::conflict,
                 fmt::format("{} is in use by another program; choose another with --listen",
                             endpoint.text())};
  }
  if (errno == EADDRNOTAVAIL) {
    return Error{Errc::invalid, fmt::format("{} is no address of this machine", endpoint.address)};
  }
  return system_error("listening on " + endpoint.text());
}

}  // namespace

Result<UniqueFd> listen_on_tcp(const Endpoint& endpoint) {
  const auto address = to_socket_address(endpoint);
  if (!address) return address.error();
  UniqueFd socket(
      ::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!socket) return why_not(endpoint);
  set_option(socket, SOL_SOCKET, SO_REUSEADDR);
  if (address->family() == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY);
  if (::bind(socket.get(), address->get(), address->length) != 0) return why_not(endpoint);
  if (::listen(socket.get(), SOMAXCONN) != 0) return why_not(endpoint);
  return socket;
}

}  // namespace gpuyard::http
