// Datagrams over a Unix socket with descriptors beside them, which the kernel passes to the process
// at the other end.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace gpuyard {

inline constexpr std::size_t kMaxPassedFds = 128;

// Works like sendmsg(): returns -1 and errno if it fails. Never raises SIGPIPE.
ssize_t send_with_fds(int socket, std::string_view bytes, std::span<const int> fds, int flags = 0);

struct DatagramWithFds {
  ssize_t size = -1;       // as it was sent, which may be more than there is room for; -1 and errno
  bool truncated = false;  // bytes or descriptors were lost
  std::vector<UniqueFd> fds;
};

// Works like recvmsg(), with all descriptors closed at exec.
DatagramWithFds receive_with_fds(int socket, std::span<char> buffer, int flags = 0);

}  // namespace gpuyard
