// Decodes any bytes as a message of a driver-host that may be faulty. If decoding succeeds, the
// result must encode and decode again to the same bytes.
#include <cstddef>
#include <cstdint>

#include "gpu/driver/message.h"
#include "require.h"

namespace gpuyard::driver {
namespace {

template <class Message>
std::string encoded(const Message& message) {
  std::string bytes;
  Encoder(bytes).put(message);
  return bytes;
}

template <class Message>
void decode_and_encode(std::string_view bytes) {
  Message message;
  Decoder decoder(bytes);
  decoder.get(message);
  if (!decoder.is_complete()) return;
  const std::string once = encoded(message);
  Message again;
  Decoder second(once);
  second.get(again);
  fuzz::require(second.is_complete(), "what was encoded can be decoded");
  fuzz::require(encoded(again) == once, "decoding and encoding changes nothing");
}

}  // namespace
}  // namespace gpuyard::driver

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  gpuyard::driver::decode_and_encode<gpuyard::driver::DriverHostMessage>(bytes);
  gpuyard::driver::decode_and_encode<gpuyard::driver::DriverHostRequest>(bytes);
  return 0;
}
