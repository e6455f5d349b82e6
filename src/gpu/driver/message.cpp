#include "driver/message.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/files.h"

namespace gpuyard::driver {
namespace {

Error gone() {
  return {Errc::unavailable, "the other end of the driver-host socket is closed"};
}

int flags_of(Wait wait) {
  return wait == Wait::no ? MSG_DONTWAIT : 0;
}

template <class Message>
Result<void> send_any(int socket, const Message& message, int descriptor, Wait wait) {
  Encoder encoder;
  encoder.put(message);
  const std::string bytes = std::move(encoder).take();
  if (bytes.size() > kMaxMessage) return Error{Errc::internal, "driver message too long"};
  return send_bytes(socket, bytes, descriptor, wait);
}

template <class Message>
Result<Message> receive_any(int socket, UniqueFd* descriptor, Wait wait) {
  thread_local std::string buffer(kMaxMessage, '\0');
  const auto length = receive_bytes(socket, buffer.data(), buffer.size(), descriptor, wait);
  if (!length) return length.error();
  if (*length > buffer.size()) return Error{Errc::invalid, "driver message too long"};
  Message message;
  Decoder decoder(std::string_view(buffer.data(), *length));
  decoder.get(message);
  if (!decoder.complete()) return Error{Errc::invalid, "driver message not understood"};
  return message;
}

// Room for one descriptor, which may come beside a datagram.
struct Attachment {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes{};

  void give(msghdr& message, int descriptor) {
    message.msg_control = bytes.data();
    message.msg_controllen = bytes.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  static UniqueFd take(msghdr& message) {
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN(sizeof(int))) {
      return {};
    }
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
    return UniqueFd(descriptor);
  }
};

}  // namespace

Result<void> send_bytes(int socket, std::string_view bytes, int descriptor, Wait wait) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Attachment attachment;
  if (descriptor >= 0) attachment.give(message, descriptor);
  for (;;) {
    if (::sendmsg(socket, &message, MSG_NOSIGNAL | flags_of(wait)) >= 0) return {};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Error{Errc::busy, "driver-host is busy"};
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return gone();
    return system_error("sending to the driver-host socket");
  }
}

Result<std::size_t> receive_bytes(int socket, char* bytes, std::size_t room, UniqueFd* descriptor,
                                  Wait wait) {
  iovec part{bytes, room};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Attachment attachment;
  if (descriptor != nullptr) {
    message.msg_control = attachment.bytes.data();
    message.msg_controllen = attachment.bytes.size();
  }
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_TRUNC | MSG_CMSG_CLOEXEC | flags_of(wait));
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Error{Errc::busy, "no message"};
  if (got == 0 || (got < 0 && errno == ECONNRESET)) return gone();
  if (got < 0) return system_error("reading the driver-host socket");
  if (descriptor != nullptr) *descriptor = Attachment::take(message);
  return static_cast<std::size_t>(got);
}

Result<void> send_message(int socket, const ToHost& message, Wait wait) {
  return send_any(socket, message, -1, wait);
}
Result<void> send_message(int socket, const FromHost& message, Wait wait) {
  return send_any(socket, message, -1, wait);
}
Result<void> send_message(int socket, const FromHost& message, int descriptor, Wait wait) {
  return send_any(socket, message, descriptor, wait);
}
Result<ToHost> receive_to_host(int socket, Wait wait) {
  return receive_any<ToHost>(socket, nullptr, wait);
}
Result<FromHost> receive_from_host(int socket, Wait wait, UniqueFd* descriptor) {
  return receive_any<FromHost>(socket, descriptor, wait);
}

}  // namespace gpuyard::driver
