#include "driver/message.h"

#include <sys/socket.h>

#include <cerrno>

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
Result<void> send_any(int socket, const Message& message, Wait wait) {
  Encoder encoder;
  encoder.put(message);
  const std::string bytes = std::move(encoder).take();
  if (bytes.size() > kMaxMessage) return Error{Errc::internal, "driver message too long"};
  for (;;) {
    if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | flags_of(wait)) >= 0) return {};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Error{Errc::busy, "driver-host is busy"};
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return gone();
    return system_error("sending to the driver-host socket");
  }
}

template <class Message>
Result<Message> receive_any(int socket, Wait wait) {
  thread_local std::string buffer(kMaxMessage, '\0');
  ssize_t got = 0;
  do {
    got = ::recv(socket, buffer.data(), buffer.size(), MSG_TRUNC | flags_of(wait));
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Error{Errc::busy, "no message"};
  if (got == 0 || (got < 0 && errno == ECONNRESET)) return gone();
  if (got < 0) return system_error("reading the driver-host socket");
  const auto length = static_cast<std::size_t>(got);
  if (length > buffer.size()) return Error{Errc::invalid, "driver message too long"};
  Message message;
  Decoder decoder(std::string_view(buffer.data(), length));
  decoder.get(message);
  if (!decoder.complete()) return Error{Errc::invalid, "driver message not understood"};
  return message;
}

}  // namespace

Result<void> send_message(int socket, const ToHost& message, Wait wait) {
  return send_any(socket, message, wait);
}
Result<void> send_message(int socket, const FromHost& message, Wait wait) {
  return send_any(socket, message, wait);
}
Result<ToHost> receive_to_host(int socket, Wait wait) {
  return receive_any<ToHost>(socket, wait);
}
Result<FromHost> receive_from_host(int socket, Wait wait) {
  return receive_any<FromHost>(socket, wait);
}

}  // namespace gpuyard::driver
