#include "base/json_writer.h"

#include "base/utf8.h"

namespace gpuyard::json {
namespace {

void put_escape(std::string& out, unsigned char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[c >> 4U];
      out += kHex[c & 0xFU];
  }
}

}  // namespace

void put_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text.front());
    if (c < 0x80) {
      if (c < 0x20 || c == '"' || c == '\\' || c == 0x7F) {
        put_escape(out, c);
      } else {
        out += static_cast<char>(c);
      }
      text.remove_prefix(1);
      continue;
    }
    const std::size_t length = utf8_sequence_length(text);
    out += length > 0 ? text.substr(0, length) : kReplacementCharacter;
    text.remove_prefix(length > 0 ? length : 1);
  }
  out += '"';
}

void put_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
}

}  // namespace gpuyard::json
