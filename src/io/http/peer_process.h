// A handle of the process on the other side of a Unix socket, from the kernel.
#pragma once

#include <sys/types.h>

#include <memory>

#include "base/unique_fd.h"

namespace gpuyard::http {

// A pidfd: readable when the process is gone, and never another's. Of an accepted socket, whose
// peer is who connected; a socketpair would show whoever made it. Closed on exec. Null where the
// kernel gives none: then nobody is known to be there.
std::shared_ptr<const UniqueFd> peer_process(int socket, pid_t pid);

// Whether the kernel knows the peer of a socket whenever it is asked (Linux 6.5). Before, its
// number has to be looked up as soon as it has connected.
bool knows_peer_process();

}  // namespace gpuyard::http
