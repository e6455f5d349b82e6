#include "http/peer_groups.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace gpuyard::http {
namespace {

constexpr std::size_t kUsually = 32;

// How many there are where they did not fit, else what was read of them.
std::size_t read_groups(int socket, std::vector<gid_t>& out) {
  auto bytes = static_cast<socklen_t>(out.size() * sizeof(gid_t));
  const bool read = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, out.data(), &bytes) == 0;
  if (!read && errno != ERANGE) return 0;
  return bytes / sizeof(gid_t);
}

}  // namespace

std::vector<gid_t> peer_groups(int socket, gid_t own) {
  std::vector<gid_t> groups(kUsually);
  std::size_t count = read_groups(socket, groups);
  if (count > groups.size() && count <= kMostPeerGroups) {
    groups.resize(count);
    count = read_groups(socket, groups);
  }
  groups.resize(count <= groups.size() ? count : 0);
  if (std::ranges::find(groups, own) == groups.end()) groups.push_back(own);
  return groups;
}

}  // namespace gpuyard::http
