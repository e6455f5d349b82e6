#include "faces/client/local_daemon.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"

namespace gpuyard::client {
namespace {

// Returns whether only the system's administrator can put a socket there.
bool is_system_place(const std::string& path) {
  return path.starts_with("/run/gpuyard/");
}

// Returns whether a trusted daemon listens there. Connecting alone decides: a silent daemon counts
// as there. In a place that any user could have prepared, it must run as root or as our own user.
bool is_daemon_listening(const std::string& path) {
  const auto address = http::to_socket_address(http::Endpoint::unix_socket(path));
  if (!address) return false;
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(socket.get(), address->get(), address->length) != 0) {
    return errno == EAGAIN && is_system_place(path);  // its queue is full: it is there
  }
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return is_system_place(path) || peer.uid == 0 || peer.uid == ::geteuid();
}

// Returns whether only permissions keep this user from a socket of the system's daemon.
bool is_forbidden(const std::string& path) {
  return is_system_place(path) && ::access(path.c_str(), W_OK) != 0 && errno == EACCES;
}

constexpr const char* kStartService = "sudo systemctl start gpuyard";

}  // namespace

std::vector<std::string> trusted_sockets(const Environment& environment) {
  auto sockets = candidate_sockets(environment);
  std::erase_if(sockets, [&](const std::string& socket) {
    return is_in_fallback_directory(environment, socket) &&
           !check_private_directory(fallback_directory(environment));
  });
  return sockets;
}

std::optional<http::Endpoint> find_daemon(const std::vector<std::string>& sockets) {
  const auto found = std::ranges::find_if(sockets, is_daemon_listening);
  if (found == sockets.end()) return std::nullopt;
  return http::Endpoint::unix_socket(*found);
}

bool has_service() {
  static const bool installed = ::access("/lib/systemd/system/gpuyard.service", F_OK) == 0;
  return installed;
}

std::string start_command() {
  return has_service() ? kStartService : "gpuyard serve";
}

Error no_daemon_error(const std::vector<std::string>& sockets, std::string_view if_none) {
  const auto closed = std::ranges::find_if(sockets, is_forbidden);
  if (closed == sockets.end()) {
    return {Errc::unavailable, std::string(if_none), "", start_command()};
  }
  return {Errc::denied, fmt::format("not allowed to connect to {}: Permission denied", *closed), "",
          fmt::format("ls -ld {} {}", parent_directory(*closed), *closed)};
}

Error add_start_hint(Error error, const http::Endpoint& daemon) {
  if (error.code != Errc::unavailable || daemon.is_remote()) return error;
  if (daemon.kind == http::Endpoint::Kind::tcp) {
    if (http::is_loopback(daemon.address)) error.hint = "gpuyard serve --listen " + daemon.text();
  } else if (is_system_place(daemon.path) && has_service()) {
    error.hint = kStartService;
  } else {
    error.hint = "gpuyard serve --socket " + quote_shell_word(daemon.path);
  }
  return error;
}

Credentials credentials_of(const Environment& environment) {
  return {.hosts_file = hosts_file(environment),
          .token = environment.gpuyard_token,
          .token_file = environment.gpuyard_token_file,
          .home = environment.home};
}

Error conflicting_daemons_error(std::string_view one, std::string_view other) {
  return {Errc::invalid, fmt::format("{} cannot be used with {}", one, other)};
}

Result<http::Endpoint> select_daemon(const std::string& host, const Environment& environment,
                                     const Credentials& credentials) {
  const std::string& named = host.empty() ? environment.gpuyard_host : host;
  if (!named.empty()) {
    const auto address = GPUYARD_TRY(resolve_address(named, credentials.hosts_file));
    auto endpoint = parse_daemon_address(address, credentials);
    const auto socket = http::parse_endpoint(environment.gpuyard_socket);
    if (host.empty() && !environment.gpuyard_socket.empty() && endpoint &&
        (!socket || socket->text() != endpoint->text())) {
      return conflicting_daemons_error("GPUYARD_HOST", "GPUYARD_SOCKET");
    }
    return endpoint;
  }
  if (!environment.gpuyard_socket.empty())
    return parse_daemon_address(environment.gpuyard_socket, credentials);
  const auto sockets = trusted_sockets(environment);
  if (auto found = find_daemon(sockets)) return *std::move(found);
  return no_daemon_error(sockets, "no daemon is running on this machine");
}

}  // namespace gpuyard::client
