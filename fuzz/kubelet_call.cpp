// Sends any bytes to the client's end of a gRPC call. The first byte says how many come at a time.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "io/kubelet/unary_call.h"
#include "require.h"

namespace gpuyard::kubelet {
namespace {

void run_call(std::string_view bytes, std::size_t at_a_time) {
  UnaryCall call("/v1.PodResourcesLister/List");
  std::size_t sent = call.take_output().size();
  const std::size_t received = bytes.size();
  while (!call.is_done() && !bytes.empty()) {
    // A copy of the exact size: AddressSanitizer sees a read behind it.
    call.receive(std::string(bytes.substr(0, at_a_time)));
    bytes.remove_prefix(std::min(at_a_time, bytes.size()));
    if (!call.is_done()) sent += call.take_output().size();
  }
  // A frame of 9 bytes brings an answer of 17 at most; a request and a farewell come besides.
  fuzz::require(sent <= 4 * received + 1024, "the output is bounded by the input");
  if (!call.is_done()) call.receive_end();
  fuzz::require(call.is_done(), "a closed connection ends the call");
  const auto reply = std::move(call).take_result();
  if (!reply) return;
  fuzz::require(reply->message.size() <= received, "the message was in the bytes");
  fuzz::require(reply->status == 0 || reply->message.empty(), "a refusal has no message");
}

}  // namespace
}  // namespace gpuyard::kubelet

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  gpuyard::kubelet::run_call(bytes, std::size_t{1} + data[0]);
  return 0;
}
