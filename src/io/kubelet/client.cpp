#include "io/kubelet/client.h"

#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/try.h"
#include "io/kubelet/unary_call.h"
#include "io/kubelet/unix_connection.h"

namespace gpuyard::kubelet {
namespace {

Errc errc_of_status(int status) {
  switch (status) {
    case 4:
      return Errc::timed_out;  // DEADLINE_EXCEEDED
    case 7:                    // PERMISSION_DENIED
    case 16:
      return Errc::denied;  // UNAUTHENTICATED
    case 8:
      return Errc::busy;  // RESOURCE_EXHAUSTED
    case 12:
      return Errc::unsupported;  // UNIMPLEMENTED
    default:
      return Errc::unavailable;
  }
}

Result<std::string> message_of(Result<GrpcReply> reply) {
  if (!reply) return std::move(reply).error();
  if (reply->status == 0) return std::move(reply->message);
  return Error{errc_of_status(reply->status),
               fmt::format("refused with {}", grpc_status_text(reply->status)),
               printable(reply->status_message)};
}

Result<std::string> call(const std::string& socket_path, std::string_view method,
                         Duration timeout) {
  constexpr std::size_t kChunkBytes = std::size_t{64} << 10U;
  const TimePoint deadline = BootClock::now() + timeout;
  auto connection = GPUYARD_TRY(UnixConnection::open(socket_path, deadline));
  UnaryCall unary(method);
  std::vector<char> space(kChunkBytes);
  while (!unary.is_done()) {
    GPUYARD_TRY(connection.send(unary.take_output(), deadline));
    if (unary.is_done()) break;
    const auto got = GPUYARD_TRY(connection.receive(space, deadline));
    if (got == 0) {
      unary.receive_end();
    } else {
      unary.receive({space.data(), got});
    }
  }
  return message_of(std::move(unary).take_result());
}

template <class Value>
Result<Value> fetch(const std::string& socket_path, std::string_view method, Duration timeout,
                    std::string_view what, Result<Value> (*decode)(std::string_view)) {
  const std::string where = fmt::format("listing {} at {}", what, socket_path);
  auto message = call(socket_path, method, timeout);
  if (!message) return std::move(message).error().in(where);
  auto decoded = decode(*message);
  if (!decoded) return std::move(decoded).error().in(where);
  return decoded;
}

}  // namespace

Result<std::vector<Pod>> fetch_pods(const std::string& socket_path, Duration timeout) {
  return fetch(socket_path, "/v1.PodResourcesLister/List", timeout, "pods", decode_pods);
}

Result<AllocatableDevices> fetch_allocatable_devices(const std::string& socket_path,
                                                     Duration timeout) {
  return fetch(socket_path, "/v1.PodResourcesLister/GetAllocatableResources", timeout,
               "allocatable devices", decode_allocatable_devices);
}

}  // namespace gpuyard::kubelet
