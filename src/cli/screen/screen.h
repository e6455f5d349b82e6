// The output that stdout leads to: its size, and what it can show.
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>

#include "cli/screen/printable.h"

namespace gpuyard::cli {

enum class ColorMode { automatic, always, never };

struct Screen {
  bool terminal = false;
  std::size_t columns = 0;  // 0: no limit, as in a file
  std::size_t rows = 0;     // 0: no limit
  bool color = false;
  bool utf8 = false;  // the locale is UTF-8, and TERM is no terminal of few glyphs

  static Screen of_stdout(ColorMode = ColorMode::automatic);
  bool has_room_for(std::size_t width) const { return columns == 0 || width <= columns; }
};

enum class Tone { plain, strong, faint, good, busy, warning, bad };

// `text` in that tone, or as it is on a screen without colour.
Printable painted(const Screen&, Tone, std::string_view text);
Printable painted_lines(const Screen&, Tone, const Printable& text);
template <std::same_as<Printable> Text>
Printable painted(const Screen& screen, Tone tone, const Text& text) {
  return painted_lines(screen, tone, text);
}

}  // namespace gpuyard::cli
