// Decodes any bytes as a block of points, as from a damaged history.db. If decoding succeeds, the
// result must encode and decode again to the same points.
#include <cstddef>
#include <cstdint>

#include "core/history/block.h"
#include "require.h"

namespace gpuyard::history {
namespace {

template <class P>
void decode_and_encode(std::string_view bytes) {
  const auto points = decode<P>(bytes);
  if (!points) return;
  fuzz::require(!points->empty() && points->size() <= kMaxBlockPoints, "a block has its limits");
  for (std::size_t i = 1; i < points->size(); ++i) {
    fuzz::require((*points)[i - 1].at_ms < (*points)[i].at_ms, "time goes on");
  }
  const auto again = decode<P>(encode(std::span<const P>(*points)));
  fuzz::require(again == points, "encoding and decoding changes nothing");
}

}  // namespace
}  // namespace gpuyard::history

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  gpuyard::history::decode_and_encode<gpuyard::history::Point>(bytes);
  gpuyard::history::decode_and_encode<gpuyard::history::Bucket>(bytes);
  return 0;
}
