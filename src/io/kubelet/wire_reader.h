// Reads protobuf's wire format, field by field. Knows no message.
//
// The format: https://protobuf.dev/programming-guides/encoding. What Go's protowire refuses is
// malformed here as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gpuyard::kubelet {

// The numbers of the format; 6 and 7 are malformed.
enum class WireType : std::uint8_t {
  varint = 0,
  fixed64 = 1,
  bytes = 2,  // a string, a message, or packed numbers
  group_begin = 3,
  group_end = 4,
  fixed32 = 5,
};

struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::uint64_t value = 0;      // of a varint, fixed32 or fixed64
  std::string_view bytes = {};  // without their length
};

// Thread: any. Allocates nothing. The bytes outlive the reader and its fields.
class WireReader {
 public:
  // Groups inside groups; deeper ones are malformed. Groups are obsolete: no message that is read
  // here has one.
  static constexpr std::size_t kMaxGroupDepth = 100;

  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  // Returns the next field that is no group. Returns nothing at the end, and from the first
  // malformed field on.
  std::optional<WireField> next();
  // Whether next() has met a malformed field.
  bool is_malformed() const { return malformed_; }

 private:
  bool read_field(WireField&);
  bool read_varint(std::uint64_t&);
  bool read_fixed(std::size_t length, std::uint64_t&);
  bool read_bytes(std::string_view&);
  bool skip_group(std::uint32_t number);

  std::string_view rest_;
  bool malformed_ = false;
};

}  // namespace gpuyard::kubelet
