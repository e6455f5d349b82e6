// Rows of cells as aligned columns that fit the screen: what does not fit goes, in a stated order.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/screen/terminal.h"

namespace gpuyard::cli {

struct Cell {
  std::string text;
  Tone tone = Tone::plain;
  std::string bar = {};  // before the text, where there is room; of the same width in each row
};

struct Column {
  std::string heading;
  bool right = false;
  int drops = 0;      // the higher the sooner; 0: never
  int bar_drops = 0;  // the same for the bars in its cells
  std::vector<Cell> cells = {};
};

struct FittedTable {
  std::vector<Column> columns;

  // A row: one cell for each column.
  void add(std::vector<Cell> cells);

  // Two blanks apart. Where even what never goes is too wide, lines are cut.
  std::string text(const Screen&) const;
};

// "━━━━━─────": how much of `width`, with the empty rest faint; ASCII where there is no UTF-8.
// A share outside 0..1 is the nearest of these.
std::string bar(const Screen&, Tone, double share, std::size_t width);

// How many columns of a terminal a text takes, and cutting it to fit.

// Combining marks take none, East Asian letters and emoji two, a byte that is not UTF-8 one.
std::size_t width_of(std::string_view text);

// The same of a text with colours in it: escape sequences that end with an m take none.
std::size_t visible_width(std::string_view painted_text);

// At most `width` columns; of a longer text the beginning and "..." (one sign where the terminal
// shows UTF-8).
std::string cut_to(std::string_view text, std::size_t width, bool utf8);

// Lines of at most `width` columns, broken at blanks. A word that is longer is cut in pieces.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

// The same lines in a tone, as broad as the screen, each with its end.
std::string paragraph(const Screen&, Tone, std::string_view text);

}  // namespace gpuyard::cli
