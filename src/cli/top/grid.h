// A screen as a grid of cells, and the bytes that bring it to a terminal. Pure: what is drawn is
// compared with files in tests, and a terminal gets only what has changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/screen/screen.h"

namespace gpuyard::cli::top {

struct Size {
  std::size_t columns = 80;
  std::size_t rows = 24;

  friend bool operator==(const Size&, const Size&) = default;
};

struct Style {
  Tone tone = Tone::plain;
  bool reversed = false;

  friend bool operator==(const Style&, const Style&) = default;
};

// Signs that a terminal can show, from the finest.
enum class Charset { braille, block, ascii };
// Colours that it can show.
enum class Palette { true_color, of_256, of_16, mono };

class Grid {
 public:
  explicit Grid(Size size) : size_(size), cells_(size.columns * size.rows) {}

  Size size() const { return size_; }

  // Writes text from this cell to the right and returns the column behind it. Cuts what does not
  // fit into the row, or into `width` columns; a row beyond the last is ignored. Control characters
  // become '?': the text may be a stranger's.
  std::size_t put(std::size_t column, std::size_t row, std::string_view text, Style style = {},
                  std::size_t width = SIZE_MAX);
  // The same, ending at this column (exclusive).
  void put_right(std::size_t end, std::size_t row, std::string_view text, Style style = {});
  // Changes how the cells of a row look.
  void restyle(std::size_t row, std::size_t from, std::size_t until, Style style);

  // Sets what a click on these cells refers to.
  void mark(std::size_t row, std::size_t from, std::size_t until, std::string_view about);
  // "" for cells without a mark.
  std::string_view about(std::size_t column, std::size_t row) const;

  // The signs alone, each row without its trailing blanks and with a newline.
  Printable text() const;

  // Brings a terminal that shows `before` to show this grid; the whole of it if `before` has
  // another size.
  Printable diff_bytes(const Grid& before, Palette palette) const;

 private:
  // A wide sign has its text in its first cell; the next one is a part of it.
  struct Cell {
    std::string sign = " ";  // printable
    Style style;
    bool continues = false;

    friend bool operator==(const Cell&, const Cell&) = default;
  };

  Cell& at(std::size_t column, std::size_t row) { return cells_[row * size_.columns + column]; }
  const Cell& at(std::size_t column, std::size_t row) const {
    return cells_[row * size_.columns + column];
  }
  void clear(std::size_t column, std::size_t row);

  struct Area {
    std::size_t row;
    std::size_t from;
    std::size_t until;
    std::string about;
  };

  Size size_;
  std::vector<Cell> cells_;
  std::vector<Area> areas_;
};

// Takes "truecolor" of COLORTERM and the terminal's name: no terminfo entry is needed.
Palette palette_of(std::string_view term, std::string_view colorterm, bool color);

// Draws values of 0 to 1 from the right: the newest last. An empty value is a gap.
std::string sparkline(const std::vector<double>& values, std::size_t width, Charset charset);
// A share as a bar, "▓▓·".
std::string meter(double share, std::size_t width, Charset charset);
// One sign for a share, from nothing to full.
std::string_view level(double share, Charset charset);
inline constexpr double kNoValue = -1;

}  // namespace gpuyard::cli::top
