// SHA-256, as digits.
#pragma once

#include <string>
#include <string_view>

namespace gpuyard {

// In lower-case hexadecimal digits. Thread: any.
std::string sha256_hex(std::string_view bytes);

inline constexpr std::size_t kSha256HexDigits = 64;

}  // namespace gpuyard
