#include "cli/screen/text_width.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace gpuyard::cli {
namespace {

struct CodePoints {
  std::uint32_t first;
  std::uint32_t last;
};

// Unicode 15: what terminals draw over the character before it, and what they draw two columns
// wide. Whole blocks; enough for names of processes and users.
constexpr std::array kNone = {CodePoints{0x0300, 0x036F}, CodePoints{0x200B, 0x200F},
                              CodePoints{0x20D0, 0x20FF}, CodePoints{0xFE00, 0xFE0F},
                              CodePoints{0xFE20, 0xFE2F}};
constexpr std::array kTwo = {
    CodePoints{0x1100, 0x115F},   CodePoints{0x2E80, 0x303E},  CodePoints{0x3041, 0xA4CF},
    CodePoints{0xAC00, 0xD7A3},   CodePoints{0xF900, 0xFAFF},  CodePoints{0xFE30, 0xFE6F},
    CodePoints{0xFF00, 0xFF60},   CodePoints{0xFFE0, 0xFFE6},  CodePoints{0x1F300, 0x1F64F},
    CodePoints{0x1F900, 0x1F9FF}, CodePoints{0x20000, 0x3FFFD}};

std::size_t width_of_character(std::string_view sequence) {
  const std::uint32_t code = utf8_code_point(sequence);
  const auto within = [&](const CodePoints& range) {
    return code >= range.first && code <= range.last;
  };
  if (std::ranges::any_of(kNone, within)) return 0;
  return std::ranges::any_of(kTwo, within) ? 2 : 1;
}

// The next character, or one byte that is none, and its width.
struct Step {
  std::size_t bytes;
  std::size_t columns;
};
Step step_of(std::string_view text) {
  const std::size_t length = utf8_sequence_length(text);
  if (length == 0) return {1, 1};
  return {length, width_of_character(text.substr(0, length))};
}

// The bytes of the longest beginning that fits.
std::size_t bytes_within(std::string_view text, std::size_t width) {
  std::size_t bytes = 0;
  std::size_t used = 0;
  while (bytes < text.size()) {
    const Step step = step_of(text.substr(bytes));
    if (used + step.columns > width) break;
    used += step.columns;
    bytes += step.bytes;
  }
  return bytes;
}

}  // namespace

std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Step step = step_of(text);
    width += step.columns;
    text.remove_prefix(step.bytes);
  }
  return width;
}

std::size_t visible_width(std::string_view painted_text) {
  std::string plain;
  while (!painted_text.empty()) {
    if (painted_text.starts_with("\x1b[")) {
      painted_text.remove_prefix(std::min(painted_text.find('m'), painted_text.size() - 1) + 1);
      continue;
    }
    plain += painted_text.front();
    painted_text.remove_prefix(1);
  }
  return width_of(plain);
}

std::string cut_to(std::string_view text, std::size_t width, bool utf8) {
  if (width_of(text) <= width) return std::string(text);
  const std::string_view sign = utf8 ? "\u2026" : "...";
  const std::size_t sign_width = utf8 ? 1 : 3;
  if (width <= sign_width) return std::string(text.substr(0, bytes_within(text, width)));
  return std::string(text.substr(0, bytes_within(text, width - sign_width))).append(sign);
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  width = std::max<std::size_t>(width, 1);
  std::vector<std::string> lines;
  while (width_of(text) > width) {
    std::size_t end = std::max<std::size_t>(bytes_within(text, width), 1);
    // A blank right behind is a place to break, too.
    const std::size_t blank = text.substr(0, end + 1).rfind(' ');
    const bool at_blank = blank != std::string_view::npos && blank > 0;
    if (at_blank) end = blank;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(at_blank ? end + 1 : end);
  }
  lines.emplace_back(text);
  return lines;
}

}  // namespace gpuyard::cli
