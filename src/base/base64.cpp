#include "base/base64.h"

#include <cstddef>

namespace gpuyard {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string encode_base64(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t at) {
      return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0U;
    };
    const unsigned bits = (byte(i) << 16U) | (byte(i + 1) << 8U) | byte(i + 2);
    for (std::size_t digit = 0; digit < 4; ++digit) {
      const bool beyond = i + digit > bytes.size();
      text += beyond ? '=' : kDigits[(bits >> (18U - 6U * digit)) & 0x3FU];
    }
  }
  return text;
}

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  if (text.ends_with('=')) text.remove_suffix(text.ends_with("==") ? 2 : 1);
  std::string bytes;
  unsigned pending = 0;
  unsigned pending_bits = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == kDigits.npos) return std::nullopt;
    pending = (pending << 6U) | static_cast<unsigned>(digit);
    pending_bits += 6;
    if (pending_bits < 8) continue;
    pending_bits -= 8;
    bytes += static_cast<char>(pending >> pending_bits);
    pending &= (1U << pending_bits) - 1;
  }
  if (pending != 0) return std::nullopt;  // bits of no byte
  return bytes;
}

}  // namespace gpuyard
