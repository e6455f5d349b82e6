#include "io/kubelet/wire_reader.h"

#include <array>

namespace gpuyard::kubelet {
namespace {

constexpr std::uint64_t kMaxFieldNumber = (std::uint64_t{1} << 29U) - 1;
// The tenth byte of a varint has room for one bit of 64.
constexpr unsigned kLastVarintShift = 63;

}  // namespace

std::optional<WireField> WireReader::next() {
  while (!malformed_ && !rest_.empty()) {
    WireField field;
    malformed_ = !read_field(field) || field.type == WireType::group_end;
    if (!malformed_ && field.type != WireType::group_begin) return field;
    malformed_ = malformed_ || !skip_group(field.number);
  }
  return std::nullopt;
}

bool WireReader::read_field(WireField& field) {
  std::uint64_t tag = 0;
  if (!read_varint(tag)) return false;
  const std::uint64_t number = tag >> 3U;
  if (number == 0 || number > kMaxFieldNumber) return false;
  field.number = static_cast<std::uint32_t>(number);
  field.type = static_cast<WireType>(tag & 7U);
  switch (field.type) {
    case WireType::varint:
      return read_varint(field.value);
    case WireType::fixed64:
      return read_fixed(8, field.value);
    case WireType::fixed32:
      return read_fixed(4, field.value);
    case WireType::bytes:
      return read_bytes(field.bytes);
    case WireType::group_begin:
    case WireType::group_end:
      return true;
  }
  return false;
}

bool WireReader::read_varint(std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift <= kLastVarintShift && !rest_.empty(); shift += 7) {
    const std::uint64_t byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    if (shift == kLastVarintShift && byte > 1) return false;
    value |= (byte & 0x7FU) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool WireReader::read_fixed(std::size_t length, std::uint64_t& value) {
  if (rest_.size() < length) return false;
  value = 0;
  for (std::size_t i = length; i > 0; --i) {
    value = (value << 8U) | static_cast<unsigned char>(rest_[i - 1]);
  }
  rest_.remove_prefix(length);
  return true;
}

bool WireReader::read_bytes(std::string_view& bytes) {
  std::uint64_t length = 0;
  if (!read_varint(length) || length > rest_.size()) return false;
  bytes = rest_.substr(0, static_cast<std::size_t>(length));
  rest_.remove_prefix(bytes.size());
  return true;
}

bool WireReader::skip_group(std::uint32_t number) {
  std::array<std::uint32_t, kMaxGroupDepth> open{};
  open[0] = number;
  std::size_t depth = 1;
  while (depth > 0) {
    WireField field;
    if (!read_field(field)) return false;
    if (field.type == WireType::group_begin) {
      if (depth == open.size()) return false;
      open[depth++] = field.number;
    } else if (field.type == WireType::group_end && open[--depth] != field.number) {
      return false;
    }
  }
  return true;
}

}  // namespace gpuyard::kubelet
