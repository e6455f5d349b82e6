// Which groups the one on the other side of a Unix socket is in, as the kernel says.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

namespace gpuyard::http {

// Somebody in more is as if in no other than their own: authority is never guessed.
inline constexpr std::size_t kMostPeerGroups = 1024;

// `own` and the supplementary groups, as they were when the peer connected; `own` alone where the
// kernel does not say.
std::vector<gid_t> peer_groups(int socket, gid_t own);

}  // namespace gpuyard::http
