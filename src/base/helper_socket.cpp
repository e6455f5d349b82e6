#include "base/helper_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "base/files.h"

namespace gpuyard {
namespace {

// Returns the path that the socket is bound to; an empty one for a pair's.
Result<std::string> path_of(int socket) {
  sockaddr_un name{};
  socklen_t length = sizeof(name);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &length) != 0) {
    return system_error("reading the socket's address");
  }
  constexpr std::size_t kStart = offsetof(sockaddr_un, sun_path);
  if (name.sun_family != AF_UNIX || length < kStart) {
    return Error{Errc::denied, "not a Unix socket"};
  }
  if (length > kStart && name.sun_path[0] == '\0') {
    return Error{Errc::denied, "an abstract socket has no owner"};
  }
  return std::string(name.sun_path, ::strnlen(name.sun_path, length - kStart));
}

}  // namespace

Result<SocketPair> make_socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return system_error("making a pair of sockets");
  }
  return SocketPair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<UniqueFd> connect_to_helper(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(name.sun_path)) {
    return Error{Errc::invalid, fmt::format("{} is not a path of a socket", path)};
  }
  std::memcpy(name.sun_path, path.c_str(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0) {
    return system_error("connecting to " + path);
  }
  return socket;
}

Result<void> check_daemon(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return system_error("reading the credentials of the other end");
  }
  const auto path = path_of(socket);
  if (!path) return path.error();
  if (path->empty()) {
    if (peer.pid == ::getppid()) return {};
    return Error{Errc::denied, fmt::format("process {} is not the daemon", peer.pid)};
  }
  struct stat info{};
  if (::lstat(path->c_str(), &info) != 0) return system_error("reading the owner of " + *path);
  if (S_ISSOCK(info.st_mode) && (peer.uid == 0 || peer.uid == info.st_uid)) return {};
  return Error{Errc::denied, fmt::format("uid {} is not the daemon's user", peer.uid)};
}

}  // namespace gpuyard
