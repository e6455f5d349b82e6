#include "io/http/listening_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include "base/files.h"
#include "base/try.h"

namespace gpuyard::http {
namespace {

void set_option(const UniqueFd& socket, int level, int option) {
  const int on = 1;
  ::setsockopt(socket.get(), level, option, &on, sizeof on);
}

Error listen_error(const Endpoint& endpoint) {
  if (errno == EADDRINUSE) {
    return Error{Errc::conflict, endpoint.text() + " is in use by another program"};
  }
  // The interface may come up later, and IPv6 may be enabled later.
  if (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT) {
    return Error{Errc::unavailable,
                 fmt::format("{} is not an address of this machine", endpoint.address)};
  }
  return system_error("listening on " + endpoint.text());
}

UniqueFd open_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Ok if nothing is there. Removes a socket on which no server listens.
Result<void> clear_stale(const std::string& path, const SocketAddress& address) {
  struct stat before{};
  if (::lstat(path.c_str(), &before) != 0) {
    if (errno == ENOENT) return {};
    return system_error("checking " + path);
  }
  if (!S_ISSOCK(before.st_mode)) {
    return Error{Errc::conflict,
                 path + " exists and is not a socket; remove it, or choose another path"};
  }
  const UniqueFd probe = open_socket();
  if (!probe) return system_error("opening a socket");
  if (::connect(probe.get(), address.get(), address.length) == 0 || errno == EAGAIN) {
    return Error{Errc::conflict, "another gpuyard is listening on " + path};
  }
  if (errno != ECONNREFUSED && errno != ENOENT) {
    return system_error("checking for a listener on " + path);
  }
  struct stat after{};
  const bool same = ::lstat(path.c_str(), &after) == 0 && after.st_ino == before.st_ino &&
                    after.st_dev == before.st_dev;
  if (same && ::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return system_error("removing the stale " + path);
  }
  return {};
}

// A name beside `path` that only this process uses. Reached through the directory's descriptor,
// because a path in full may be too long for an address.
struct SocketDirectory {
  UniqueFd directory;
  std::string name;

  std::string socket_path() const {
    return fmt::format("/proc/self/fd/{}/{}", directory.get(), name);
  }
  ~SocketDirectory() {
    if (directory) ::unlinkat(directory.get(), name.c_str(), 0);
  }
};

Result<void> bind_with_mode(const UniqueFd& socket, const SocketDirectory& socket_directory,
                            unsigned mode) {
  const auto address =
      GPUYARD_TRY(to_socket_address(Endpoint::unix_socket(socket_directory.socket_path())));
  // Left by a process that died.
  ::unlinkat(socket_directory.directory.get(), socket_directory.name.c_str(), 0);
  if (::bind(socket.get(), address.get(), address.length) != 0) {
    return system_error("creating a socket");
  }
  if (::fchmodat(socket_directory.directory.get(), socket_directory.name.c_str(), mode, 0) != 0) {
    return system_error("setting the mode of a socket");
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) return system_error("listening");
  return {};
}

}  // namespace

Result<UniqueFd> listen_on_tcp(const Endpoint& endpoint) {
  const auto address = to_socket_address(endpoint);
  if (!address) return address.error();
  UniqueFd socket(
      ::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!socket) return listen_error(endpoint);
  set_option(socket, SOL_SOCKET, SO_REUSEADDR);
  if (address->family() == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY);
  if (::bind(socket.get(), address->get(), address->length) != 0) return listen_error(endpoint);
  if (::listen(socket.get(), SOMAXCONN) != 0) return listen_error(endpoint);
  return socket;
}

// A Unix socket is bound under a name of its own, given its mode, made to listen, and only then
// linked to the path that clients know.
Result<UnixListener> listen_on_unix(const std::string& path, unsigned mode) {
  const auto address = GPUYARD_TRY(to_socket_address(Endpoint::unix_socket(path)));
  const std::string where = parent_directory(path);
  const SocketDirectory socket_directory{
      UniqueFd(::open(where.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
      fmt::format(".gpuyard-{}", ::getpid())};
  if (!socket_directory.directory) return system_error("opening " + where);
  GPUYARD_TRY(clear_stale(path, address));
  UniqueFd socket = open_socket();
  if (!socket) return system_error("opening a socket");
  if (auto bound = bind_with_mode(socket, socket_directory, mode); !bound) {
    return std::move(bound).error().in(path);
  }
  // link, unlike rename, fails if another process was faster.
  if (::linkat(socket_directory.directory.get(), socket_directory.name.c_str(), AT_FDCWD,
               path.c_str(), 0) != 0) {
    if (errno == EEXIST) return Error{Errc::conflict, "another gpuyard is listening on " + path};
    return system_error("creating " + path);
  }
  struct stat made{};
  if (::lstat(path.c_str(), &made) != 0) return system_error("checking " + path);
  return UnixListener{std::move(socket), SocketFile(path, made.st_dev, made.st_ino)};
}

SocketFile::SocketFile(SocketFile&& other) noexcept
    : path_(std::exchange(other.path_, "")), device_(other.device_), inode_(other.inode_) {}

SocketFile& SocketFile::operator=(SocketFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  return *this;
}

SocketFile::~SocketFile() {
  struct stat now{};
  if (path_.empty() || ::lstat(path_.c_str(), &now) != 0) return;
  if (now.st_dev == device_ && now.st_ino == inode_) ::unlink(path_.c_str());
}

}  // namespace gpuyard::http
