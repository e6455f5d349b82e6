// The groups and the process of the peer of a Unix socket, as the kernel says.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "base/unique_fd.h"

namespace gpuyard::http {

// A peer in more groups than this counts as a member of its own group only: authority is never
// guessed.
inline constexpr std::size_t kMaxPeerGroups = 1024;

// `own` and the supplementary groups, as they were when the peer connected; `own` alone where the
// kernel does not say.
std::vector<gid_t> peer_groups(int socket, gid_t own);

// A handle of the process on the other side of a Unix socket, from the kernel. A pidfd: it is
// readable when the process is gone, and never means another process. `socket` must be an accepted
// one: its peer is the process that connected, but the peer of a socketpair is the process that
// made the pair. Closed on exec. Null where the kernel gives none: the process is then unknown.
std::shared_ptr<const UniqueFd> peer_process(int socket, pid_t pid);

// Whether the kernel can tell the peer's process of a socket at any time (Linux 6.5). Before, the
// process has to be looked up by its pid as soon as it has connected.
bool has_peer_pidfd();

}  // namespace gpuyard::http
