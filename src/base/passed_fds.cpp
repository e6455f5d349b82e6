#include "base/passed_fds.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace gpuyard {
namespace {

struct ControlMessages {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxPassedFds)> bytes{};
};

}  // namespace

ssize_t send_with_fds(int socket, std::string_view bytes, std::span<const int> fds, int flags) {
  if (fds.size() > kMaxPassedFds) {
    errno = ETOOMANYREFS;
    return -1;
  }
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ControlMessages control;
  if (!fds.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | flags);
}

DatagramWithFds receive_with_fds(int socket, std::span<char> buffer, int flags) {
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ControlMessages control;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  DatagramWithFds received;
  received.size = ::recvmsg(socket, &message, MSG_TRUNC | MSG_CMSG_CLOEXEC | flags);
  if (received.size < 0) return received;
  received.truncated = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(one) + i * sizeof fd, sizeof fd);
      received.fds.emplace_back(fd);
    }
  }
  return received;
}

}  // namespace gpuyard
