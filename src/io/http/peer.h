// Which groups the one on the other side of a Unix socket is in, as the kernel says.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "base/unique_fd.h"

namespace gpuyard::http {

// Somebody in more is as if in no other than their own: authority is never guessed.
inline constexpr std::size_t kMostPeerGroups = 1024;

// `own` and the supplementary groups, as they were when the peer connected; `own` alone where the
// kernel does not say.
std::vector<gid_t> peer_groups(int socket, gid_t own);

// A handle of the process on the other side of a Unix socket, from the kernel.

// A pidfd: readable when the process is gone, and never another's. Of an accepted socket, whose
// peer is who connected; a socketpair would show whoever made it. Closed on exec. Null where the
// kernel gives none: then nobody is known to be there.
std::shared_ptr<const UniqueFd> peer_process(int socket, pid_t pid);

// Whether the kernel knows the peer of a socket whenever it is asked (Linux 6.5). Before, its
// number has to be looked up as soon as it has connected.
bool knows_peer_process();

}  // namespace gpuyard::http
