// Text between the tags of a page, and in messages that follow the same rule.
#pragma once

#include <string>
#include <string_view>

namespace gpuyard {

// Escapes the three characters that mean something there.
inline std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace gpuyard
