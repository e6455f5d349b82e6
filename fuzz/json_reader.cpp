// Reads any text as the JSON of a whole snapshot: it is refused with a message, or the result must
// give the same text when it is written and read again.
#include <cstddef>
#include <cstdint>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "faces/protocol/resources.h"
#include "require.h"

namespace gpuyard {
namespace {

void read_and_write(std::string_view text, json::UnknownFields unknown) {
  const auto read = json::from_json<protocol::Snapshot>(text, unknown);
  if (!read) return fuzz::require(!read.error().message.empty(), "a refusal says why");
  const std::string written = json::to_json(*read);
  const auto again = json::from_json<protocol::Snapshot>(written);
  fuzz::require(static_cast<bool>(again), "what was written is read strictly");
  fuzz::require(json::to_json(*again) == written, "reading and writing changes nothing");
}

}  // namespace
}  // namespace gpuyard

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  gpuyard::read_and_write(text, gpuyard::json::UnknownFields::refuse);
  gpuyard::read_and_write(text, gpuyard::json::UnknownFields::ignore);
  return 0;
}
