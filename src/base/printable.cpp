#include "base/printable.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace gpuyard {
namespace {

struct CodePoints {
  std::uint32_t first;
  std::uint32_t last;
};

// Unicode 15: controls (general category Cc), line and paragraph separators, and every character
// with the property Bidi_Control.
constexpr std::array kHidden = {CodePoints{0x00, 0x1F},     CodePoints{0x7F, 0x9F},
                                CodePoints{0x061C, 0x061C}, CodePoints{0x200E, 0x200F},
                                CodePoints{0x2028, 0x202E}, CodePoints{0x2066, 0x2069}};

bool is_shown(std::string_view sequence) {
  const std::uint32_t code = utf8_code_point(sequence);
  return std::ranges::none_of(
      kHidden, [&](const CodePoints& range) { return code >= range.first && code <= range.last; });
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(length, 1));
    if (length > 0 && is_shown(sequence)) {
      out += sequence;
    } else {
      out += '?';
    }
    text.remove_prefix(sequence.size());
  }
  return out;
}

}  // namespace gpuyard
