// What stands behind stdout: how wide it is, and what it can show.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpuyard::cli {

enum class ColorWish { automatic, always, never };

struct Screen {
  bool terminal = false;
  std::size_t columns = 0;  // 0: no end, as in a file
  std::size_t rows = 0;     // 0: no end
  bool color = false;
  bool utf8 = false;

  static Screen of_stdout(ColorWish = ColorWish::automatic);
  bool holds(std::size_t width) const { return columns == 0 || width <= columns; }
};

enum class Tone { plain, strong, faint, good, busy, warning, bad };

// `text` in that tone, or as it is on a screen without colour.
std::string painted(const Screen&, Tone, std::string_view text);

}  // namespace gpuyard::cli
