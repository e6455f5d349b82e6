// Rows of cells as aligned columns that fit the screen: columns are dropped in a stated order.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/screen/screen.h"

namespace gpuyard::cli {

struct Cell {
  std::string text;  // its hidden characters are replaced when it is drawn
  Tone tone = Tone::plain;
  Printable bar = {};  // before the text if there is room; as wide in each row
};

struct Column {
  std::string heading;
  bool right = false;
  int drops = 0;      // the highest goes first; 0: never
  int bar_drops = 0;  // the same for the bars in the cells
  std::vector<Cell> cells = {};
};

struct FittedTable {
  std::vector<Column> columns;

  // Adds a row: one cell for each column.
  void add(std::vector<Cell> cells);

  // Separates columns by two blanks. Cuts lines if the columns that never go are too wide.
  Printable text(const Screen&) const;
};

// Draws a share as "━━━━━─────" of `width`, with the empty rest faint; in ASCII if there is no
// UTF-8. Limits the share to 0..1.
Printable bar(const Screen&, Tone, double share, std::size_t width);

// Combining marks take none, East Asian letters and emoji two, a byte that is not UTF-8 one.
std::size_t width_of(std::string_view text);

// The same for a text with colours: escape sequences that end with an m take none.
std::size_t visible_width(std::string_view painted_text);

// Cuts a longer text to `width` columns, the last of them "..." (one sign where the terminal shows
// UTF-8).
std::string truncate_text(std::string_view text, std::size_t width, bool utf8);

// Breaks the text at blanks into lines of at most `width` columns. Cuts a longer word in pieces.
std::vector<std::string> wrap_text(std::string_view text, std::size_t width);

// Returns such lines in a tone, as wide as the screen, each with its newline.
Printable paragraph(const Screen&, Tone, std::string_view text);

}  // namespace gpuyard::cli
