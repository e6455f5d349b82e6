// Bytes that a stranger chose, as text that may be stored, shown and sent.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace gpuyard::processes {

// At most `most` bytes of `bytes`; what is not UTF-8 becomes U+FFFD (which may make it longer).
inline std::string valid_text(std::string_view bytes, std::size_t most) {
  const bool cut = bytes.size() > most;
  bytes = bytes.substr(0, most);
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = utf8_sequence_length(bytes);
    constexpr std::size_t kLongestSequence = 4;
    if (length == 0 && cut && bytes.size() < kLongestSequence) break;  // cut inside a character
    text += length > 0 ? bytes.substr(0, length) : kReplacementCharacter;
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

}  // namespace gpuyard::processes
