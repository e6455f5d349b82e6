#include "io/http/peer.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace gpuyard::http {
namespace {

constexpr std::size_t kDefaultGroupCount = 32;

// Returns how many groups there are if they did not fit, else how many were read.
std::size_t read_groups(int socket, std::vector<gid_t>& out) {
  auto bytes = static_cast<socklen_t>(out.size() * sizeof(gid_t));
  const bool read = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, out.data(), &bytes) == 0;
  if (!read && errno != ERANGE) return 0;
  return bytes / sizeof(gid_t);
}

#ifdef SO_PEERPIDFD
constexpr int kPeerPidfd = SO_PEERPIDFD;
#else
constexpr int kPeerPidfd = 77;  // Linux 6.5; our headers are older
#endif

// Before Linux 6.5: opens the process that has this pid now. It can be another process only if the
// peer ended between connecting and being accepted.
int open_pidfd(pid_t pid) {
  return pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)) : -1;
}

}  // namespace

std::vector<gid_t> peer_groups(int socket, gid_t own) {
  std::vector<gid_t> groups(kDefaultGroupCount);
  std::size_t count = read_groups(socket, groups);
  if (count > groups.size() && count <= kMaxPeerGroups) {
    groups.resize(count);
    count = read_groups(socket, groups);
  }
  groups.resize(count <= groups.size() ? count : 0);
  if (std::ranges::find(groups, own) == groups.end()) groups.push_back(own);
  return groups;
}

bool has_peer_pidfd() {
  static const bool known = [] {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) return false;
    const UniqueFd one(pair[0]);
    const UniqueFd other(pair[1]);
    int fd = -1;
    socklen_t length = sizeof fd;
    const bool asked = ::getsockopt(one.get(), SOL_SOCKET, kPeerPidfd, &fd, &length) == 0;
    const UniqueFd process(fd);
    return asked || errno != ENOPROTOOPT;
  }();
  return known;
}

std::shared_ptr<const UniqueFd> peer_process(int socket, pid_t pid) {
  int fd = -1;
  socklen_t length = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, kPeerPidfd, &fd, &length) != 0) {
    // Any other error is about the peer, and its pid may be another process's by now.
    fd = errno == ENOPROTOOPT ? open_pidfd(pid) : -1;
  }
  UniqueFd process(fd);
  return process ? std::make_shared<const UniqueFd>(std::move(process)) : nullptr;
}

}  // namespace gpuyard::http
