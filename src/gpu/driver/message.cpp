#include "gpu/driver/message.h"

#include <sys/socket.h>

#include <cerrno>
#include <span>

#include "base/files.h"
#include "base/passed_fds.h"
#include "base/try.h"

namespace gpuyard::driver {
namespace {

Error peer_gone_error() {
  return {Errc::unavailable, "the other end of the driver-host socket is closed"};
}

int flags_of(Wait wait) {
  return wait == Wait::no ? MSG_DONTWAIT : 0;
}

// `parts` are those of one message.
template <class... Parts>
Result<void> send_parts(int socket, std::span<const int> descriptors, Wait wait,
                        const Parts&... parts) {
  thread_local std::string bytes;  // keeps its capacity
  bytes.clear();
  Encoder encoder(bytes);
  (encoder.put(parts), ...);
  if (bytes.size() > kMaxMessage) return Error{Errc::invalid, "driver message too long"};
  return send_bytes(socket, bytes, descriptors, wait);
}

template <class Message>
Result<Message> receive_any(int socket, std::vector<UniqueFd>* descriptors, Wait wait) {
  thread_local std::string buffer(kMaxMessage, '\0');
  const auto length =
      GPUYARD_TRY(receive_bytes(socket, buffer.data(), buffer.size(), descriptors, wait));
  if (length > buffer.size()) return Error{Errc::invalid, "driver message too long"};
  Message message;
  Decoder decoder(std::string_view(buffer.data(), length));
  decoder.get(message);
  if (!decoder.is_complete()) return Error{Errc::invalid, "driver message not understood"};
  return message;
}

}  // namespace

Result<void> send_bytes(int socket, std::string_view bytes, std::span<const int> descriptors,
                        Wait wait) {
  for (;;) {
    if (send_with_fds(socket, bytes, descriptors, flags_of(wait)) >= 0) return {};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Error{Errc::busy, "driver-host is busy"};
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return peer_gone_error();
    return system_error("sending to the driver-host socket");
  }
}

Result<std::size_t> receive_bytes(int socket, char* bytes, std::size_t capacity,
                                  std::vector<UniqueFd>* descriptors, Wait wait) {
  DatagramWithFds received;
  do {
    received = receive_with_fds(socket, {bytes, capacity}, flags_of(wait));
  } while (received.size < 0 && errno == EINTR);
  if (received.size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return Error{Errc::busy, "no message"};
  }
  if (received.size == 0 || (received.size < 0 && errno == ECONNRESET)) return peer_gone_error();
  if (received.size < 0) return system_error("reading the driver-host socket");
  if (descriptors != nullptr) *descriptors = std::move(received.fds);
  return static_cast<std::size_t>(received.size);
}

Result<void> send_message(int socket, const DriverHostRequest& message, Wait wait) {
  return send_parts(socket, {}, wait, message);
}
Result<void> send_message(int socket, const ReadRequests& requests, Wait wait) {
  constexpr std::uint8_t kIndex = boost::mp11::mp_find<DriverHostRequest, ReadRequests>::value;
  return send_parts(socket, {}, wait, kIndex, requests);
}
Result<void> send_message(int socket, const DriverHostMessage& message, Wait wait) {
  return send_parts(socket, {}, wait, message);
}
Result<void> send_message(int socket, const DriverHostMessage& message,
                          std::span<const int> descriptors, Wait wait) {
  return send_parts(socket, descriptors, wait, message);
}
Result<DriverHostRequest> receive_request(int socket, Wait wait) {
  return receive_any<DriverHostRequest>(socket, nullptr, wait);
}
Result<DriverHostMessage> receive_message(int socket, Wait wait,
                                          std::vector<UniqueFd>* descriptors) {
  return receive_any<DriverHostMessage>(socket, descriptors, wait);
}

}  // namespace gpuyard::driver
