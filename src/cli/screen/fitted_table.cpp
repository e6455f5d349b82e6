#include "cli/screen/fitted_table.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "cli/screen/text_width.h"

namespace gpuyard::cli {
namespace {

constexpr std::size_t kGap = 2;

// A column as it is shown, with or without its bars.
struct Shown {
  const Column* column;
  std::size_t bar_width;
  std::size_t text_width;

  std::size_t width() const { return bar_width + (bar_width > 0 ? 1 : 0) + text_width; }
};

Shown whole(const Column& column) {
  Shown shown{&column, 0, 0};
  for (const Cell& cell : column.cells) {
    shown.text_width = std::max(shown.text_width, width_of(cell.text));
    shown.bar_width = std::max(shown.bar_width, visible_width(cell.bar));
  }
  const std::size_t bar = shown.bar_width > 0 ? shown.bar_width + 1 : 0;
  const std::size_t heading = width_of(column.heading);
  shown.text_width = std::max(shown.text_width, heading > bar ? heading - bar : 0);
  return shown;
}

void drop_bars(Shown& shown) {
  shown.bar_width = 0;
  shown.text_width = std::max(shown.text_width, width_of(shown.column->heading));
}

std::size_t total(const std::vector<Shown>& columns) {
  std::size_t width = columns.empty() ? 0 : kGap * (columns.size() - 1);
  for (const Shown& shown : columns) width += shown.width();
  return width;
}

// Drops the bars or the column that goes first; false: everything left stays.
bool drop_one(std::vector<Shown>& columns) {
  const auto urgency = [](const Shown& shown) {
    return std::max(shown.column->drops, shown.bar_width > 0 ? shown.column->bar_drops : 0);
  };
  const auto next = std::ranges::max_element(columns, {}, urgency);
  if (next == columns.end() || urgency(*next) == 0) return false;
  if (next->bar_width > 0 && next->column->bar_drops >= next->column->drops) {
    drop_bars(*next);
  } else {
    columns.erase(next);
  }
  return true;
}

void pad(std::string& line, std::size_t width) {
  line.append(width, ' ');
}

// Also where the last text is painted: "NAME   \x1b[0m".
std::string without_end_blanks(std::string line) {
  constexpr std::string_view kReset = "\x1b[0m";
  const bool reset = line.ends_with(kReset);
  if (reset) line.resize(line.size() - kReset.size());
  line.erase(line.find_last_not_of(' ') + 1);
  return reset ? line.append(kReset) : line;
}

void add_cell(std::string& line, const Screen& screen, const Shown& shown, const Cell& cell,
              std::size_t room) {
  if (shown.bar_width > 0) {
    line += cell.bar;
    pad(line, shown.bar_width - visible_width(cell.bar) + 1);
    room -= std::min(room, shown.bar_width + 1);
  }
  const std::size_t width = std::min(room, shown.text_width);
  const std::string text = cut_to(cell.text, width, screen.utf8);
  const std::size_t blanks = width - std::min(width, width_of(text));
  if (shown.column->right) pad(line, blanks);
  line += painted(screen, cell.tone, text);
  if (!shown.column->right) pad(line, blanks);
}

std::string line_of(const Screen& screen, const std::vector<Shown>& columns,
                    std::optional<std::size_t> row) {
  std::string line;
  std::size_t used = 0;
  for (const Shown& shown : columns) {
    if (used > 0) pad(line, kGap);
    used += used > 0 ? kGap : 0;
    const std::size_t room = screen.columns == 0     ? std::string::npos
                             : screen.columns > used ? screen.columns - used
                                                     : 0;
    if (row) {
      add_cell(line, screen, shown, shown.column->cells[*row], room);
    } else {
      // Over bars a heading stands at the left, like the bars.
      const std::string& text = shown.column->heading;
      const bool right = shown.column->right && shown.bar_width == 0;
      const std::string blanks(shown.width() - width_of(text), ' ');
      const std::string whole_heading = right ? blanks + text : text + blanks;
      line += painted(screen, Tone::faint, cut_to(whole_heading, room, screen.utf8));
    }
    used += shown.width();
  }
  return without_end_blanks(std::move(line)) + '\n';
}

}  // namespace

void FittedTable::add(std::vector<Cell> cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) columns[i].cells.push_back(std::move(cells[i]));
}

void FittedTable::add_texts(std::span<const std::string> texts) {
  for (std::size_t i = 0; i < texts.size(); ++i) columns[i].cells.push_back({texts[i]});
}

std::string FittedTable::text(const Screen& screen) const {
  std::vector<Shown> shown;
  for (const Column& column : columns) shown.push_back(whole(column));
  while (!screen.holds(total(shown)) && drop_one(shown)) continue;
  std::string out = line_of(screen, shown, std::nullopt);
  const std::size_t rows = columns.empty() ? 0 : columns.front().cells.size();
  for (std::size_t row = 0; row < rows; ++row) out += line_of(screen, shown, row);
  return out;
}

std::string bar(const Screen& screen, Tone tone, double share, std::size_t width) {
  const double clamped = std::clamp(share, 0.0, 1.0);
  auto filled = static_cast<std::size_t>(std::lround(clamped * static_cast<double>(width)));
  if (filled == 0 && clamped > 0) filled = 1;  // something is not nothing
  std::string full;
  std::string rest;
  for (std::size_t i = 0; i < filled; ++i) full += screen.utf8 ? "\u2501" : "#";
  for (std::size_t i = filled; i < width; ++i) rest += screen.utf8 ? "\u2500" : "-";
  return painted(screen, tone, full) + painted(screen, Tone::faint, rest);
}

}  // namespace gpuyard::cli
