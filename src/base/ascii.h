// Letters of protocols and hardware, which are ASCII whatever the locale says.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace gpuyard {

constexpr char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Bytes that are no ASCII letter stay as they are.
inline std::string to_lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return to_lower(c); });
  return out;
}

constexpr bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return to_lower(x) == to_lower(y); });
}

}  // namespace gpuyard
