#include "base/base64.h"

#include <cstddef>

namespace gpuyard {

std::string encode_base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
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

}  // namespace gpuyard
