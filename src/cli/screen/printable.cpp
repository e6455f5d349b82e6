#include "cli/screen/printable.h"

#include <algorithm>

namespace gpuyard::cli {

Printable Printable::lines(std::string_view text) {
  Printable out;
  for (;;) {
    const std::size_t end = text.find('\n');
    out.text_ += printable(text.substr(0, end));
    if (end == text.npos) return out;
    out.text_ += '\n';
    text.remove_prefix(end + 1);
  }
}

Printable Printable::json(std::string_view document) {
  Printable out;
  while (!document.empty()) {
    const std::string_view sequence =
        document.substr(0, std::max<std::size_t>(utf8_sequence_length(document), 1));
    document.remove_prefix(sequence.size());
    // Between its values, a document may have line ends.
    if (sequence == "\n" || printable(sequence) == sequence) {
      out.text_ += sequence;
    } else {
      const bool valid = utf8_sequence_length(sequence) > 0;
      out.text_ += fmt::format("\\u{:04x}", valid ? utf8_code_point(sequence) : 0xFFFDU);
    }
  }
  return out;
}

std::vector<Printable> Printable::split() const {
  std::vector<Printable> out;
  for (std::string_view rest = text_; !rest.empty();) {
    out.emplace_back().text_ = take_until('\n', rest);
  }
  return out;
}

}  // namespace gpuyard::cli
