// Rows of cells as aligned columns that fit the screen: what does not fit goes, in a stated order.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/screen/screen.h"

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

  // A row: one cell, or the text of one, for each column.
  void add(std::vector<Cell> cells);
  void add_texts(std::span<const std::string> texts);

  // Two blanks apart. Where even what never goes is too wide, lines are cut.
  std::string text(const Screen&) const;
};

// "━━━━━─────": how much of `width`, with the empty rest faint; ASCII where there is no UTF-8.
// A share outside 0..1 is the nearest of these.
std::string bar(const Screen&, Tone, double share, std::size_t width);

}  // namespace gpuyard::cli
