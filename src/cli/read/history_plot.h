// Draws the history of a reading on a terminal, with axes. Each column stands for an equal part of
// the time and reaches from its least reading to its greatest.
#pragma once

#include <string>

#include "cli/read/history_table.h"

namespace gpuyard::cli {

enum class PlotCharset { braille, block, ascii };

struct PlotSize {
  std::size_t columns = 80;  // including the axis
  std::size_t rows = 12;     // without the lines above and below
};

// The range of the axis. whole: from 0 to the reading's bound, if it has one, so that a steady
// reading is a line. zoomed: what the reading varied by.
enum class PlotRange : bool { whole, zoomed };

// Ends with a newline. Times are local.
Printable history_plot(const protocol::History&, const TimeSpan&, const PlotSize&, PlotCharset,
                       const Screen&, PlotRange = PlotRange::whole);

}  // namespace gpuyard::cli
