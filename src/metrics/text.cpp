#include "metrics/text.h"

#include "base/utf8.h"

namespace gpuyard::metrics {

// Label values may be any UTF-8; a driver's bytes that are not become U+FFFD.
void Text::escape(std::string_view value) {
  while (!value.empty()) {
    const char c = value.front();
    if (c == '\\' || c == '"') {
      out_ += '\\';
      out_ += c;
    } else if (c == '\n') {
      out_ += "\\n";
    } else if (const std::size_t length = utf8_sequence_length(value); length > 0) {
      out_ += value.substr(0, length);
      value.remove_prefix(length);
      continue;
    } else {
      out_ += kReplacementCharacter;
    }
    value.remove_prefix(1);
  }
}

}  // namespace gpuyard::metrics
