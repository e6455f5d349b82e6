// The sockets between the daemon and its helpers: the driver-host, the setter, the reader of marks
// and the command-host. A helper is a child of the daemon's with one end of a pair, or a service
// manager starts it for a connection to a named socket.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard {

struct SocketPair {
  UniqueFd ours;
  UniqueFd theirs;
};

// Returns two connected SOCK_SEQPACKET sockets, both closed at exec.
Result<SocketPair> make_socket_pair();

// Returns a non-blocking connection to the socket at `path`. Errc::invalid: no path of a socket.
Result<UniqueFd> connect_to_helper(const std::string& path);

// Checks, for a helper, that its daemon is at the other end of its socket: for a named socket, root
// or the owner of the socket's file; for a pair, the parent of this process. Errc::denied
// otherwise.
Result<void> check_daemon(int socket);

}  // namespace gpuyard
