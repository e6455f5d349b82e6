// A drawing of what a reading was, with axes, for a terminal. Each column stands for an equal part
// of the time and reaches from its least reading to its greatest.
#pragma once

#include <string>

#include "cli/read/history_table.h"

namespace gpuyard::cli {

enum class PlotCharset { braille, block, ascii };

struct PlotSize {
  std::size_t columns = 80;  // the axis among them
  std::size_t rows = 12;     // without the lines above and below
};

// What of a reading that has a bound is drawn: from 0 to that, so that a steady one is a line; or
// what it varied by.
enum class PlotRange : bool { whole, zoomed };

// Ends with a newline. Times are local.
std::string history_plot(const protocol::History&, const TimeSpan&, const PlotSize&, PlotCharset,
                         const Screen&, PlotRange = PlotRange::whole);

}  // namespace gpuyard::cli
