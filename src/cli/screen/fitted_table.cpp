#include "cli/screen/fitted_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/text.h"

namespace gpuyard::cli {
namespace {

constexpr std::size_t kGap = 2;

// A column as it is shown, with or without its bars.
struct ShownColumn {
  const Column* column;
  std::size_t bar_width;
  std::size_t text_width;

  std::size_t width() const { return bar_width + (bar_width > 0 ? 1 : 0) + text_width; }
};

ShownColumn full_column(const Column& column) {
  ShownColumn shown{&column, 0, 0};
  for (const Cell& cell : column.cells) {
    shown.text_width = std::max(shown.text_width, width_of(printable(cell.text)));
    shown.bar_width = std::max(shown.bar_width, visible_width(cell.bar));
  }
  const std::size_t bar = shown.bar_width > 0 ? shown.bar_width + 1 : 0;
  const std::size_t heading = width_of(printable(column.heading));
  shown.text_width = std::max(shown.text_width, heading > bar ? heading - bar : 0);
  return shown;
}

void drop_bars(ShownColumn& shown) {
  shown.bar_width = 0;
  shown.text_width = std::max(shown.text_width, width_of(printable(shown.column->heading)));
}

std::size_t total(const std::vector<ShownColumn>& columns) {
  std::size_t width = columns.empty() ? 0 : kGap * (columns.size() - 1);
  for (const ShownColumn& shown : columns) width += shown.width();
  return width;
}

// Drops the column or the bars that go first; false: everything left stays.
bool drop_next(std::vector<ShownColumn>& columns) {
  const auto urgency = [](const ShownColumn& shown) {
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

Printable blanks(std::size_t count) {
  return formatted("{:{}}", "", count);
}

// A row under construction, without blanks at its end.
class LineOfCells {
 public:
  explicit LineOfCells(const Screen& screen) : screen_(screen) {}

  void pad(std::size_t width) { blanks_ += width; }
  void add(const Printable& painted_text) {
    if (painted_text.empty()) return;
    text_ += blanks(std::exchange(blanks_, 0)) + painted_text;
  }
  // Adds the text, and pads for the blanks at its ends.
  void add(Tone tone, std::string_view text) {
    const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
    const std::string_view inner = trim(text, " ");
    pad(first);
    add(painted(screen_, tone, inner));
    pad(text.size() - first - inner.size());
  }
  Printable ended() const { return text_ + "\n"; }

 private:
  const Screen& screen_;
  Printable text_;
  std::size_t blanks_ = 0;
};

void add_cell(LineOfCells& line, const Screen& screen, const ShownColumn& shown, const Cell& cell,
              std::size_t available) {
  if (shown.bar_width > 0) {
    line.add(cell.bar);
    line.pad(shown.bar_width - visible_width(cell.bar) + 1);
    available -= std::min(available, shown.bar_width + 1);
  }
  const std::size_t width = std::min(available, shown.text_width);
  const std::string text = truncate_text(printable(cell.text), width, screen.utf8);
  const std::size_t rest = width - std::min(width, width_of(text));
  if (shown.column->right) line.pad(rest);
  line.add(cell.tone, text);
  if (!shown.column->right) line.pad(rest);
}

Printable line_of(const Screen& screen, const std::vector<ShownColumn>& columns,
                  std::optional<std::size_t> row) {
  LineOfCells line(screen);
  std::size_t used = 0;
  for (const ShownColumn& shown : columns) {
    if (used > 0) line.pad(kGap);
    used += used > 0 ? kGap : 0;
    const std::size_t room = screen.columns == 0     ? std::string::npos
                             : screen.columns > used ? screen.columns - used
                                                     : 0;
    if (row) {
      add_cell(line, screen, shown, shown.column->cells[*row], room);
    } else {
      // Above bars a heading stands at the left, like the bars.
      const std::size_t width = std::min(room, shown.width());
      const std::string text = truncate_text(printable(shown.column->heading), width, screen.utf8);
      const std::size_t rest = width - width_of(text);
      const bool right = shown.column->right && shown.bar_width == 0;
      if (right) line.pad(rest);
      line.add(Tone::faint, text);
      if (!right) line.pad(rest);
    }
    used += shown.width();
  }
  return line.ended();
}

struct CodePoints {
  std::uint32_t first;
  std::uint32_t last;
};

// Characters of Unicode 15 that terminals draw over the character before them, and those that they
// draw two columns wide. Whole blocks: enough for names of processes and users.
constexpr std::array kZeroWidth = {CodePoints{0x0300, 0x036F}, CodePoints{0x200B, 0x200F},
                                   CodePoints{0x20D0, 0x20FF}, CodePoints{0xFE00, 0xFE0F},
                                   CodePoints{0xFE20, 0xFE2F}};
constexpr std::array kDoubleWidth = {
    CodePoints{0x1100, 0x115F},   CodePoints{0x2E80, 0x303E},  CodePoints{0x3041, 0xA4CF},
    CodePoints{0xAC00, 0xD7A3},   CodePoints{0xF900, 0xFAFF},  CodePoints{0xFE30, 0xFE6F},
    CodePoints{0xFF00, 0xFF60},   CodePoints{0xFFE0, 0xFFE6},  CodePoints{0x1F300, 0x1F64F},
    CodePoints{0x1F900, 0x1F9FF}, CodePoints{0x20000, 0x3FFFD}};

std::size_t width_of_character(std::string_view sequence) {
  const std::uint32_t code = utf8_code_point(sequence);
  const auto within = [&](const CodePoints& range) {
    return code >= range.first && code <= range.last;
  };
  if (std::ranges::any_of(kZeroWidth, within)) return 0;
  return std::ranges::any_of(kDoubleWidth, within) ? 2 : 1;
}

// The next character, or one byte that is not UTF-8, and its width.
struct CharacterSize {
  std::size_t bytes;
  std::size_t columns;
};
CharacterSize character_size(std::string_view text) {
  const std::size_t length = utf8_sequence_length(text);
  if (length == 0) return {1, 1};
  return {length, width_of_character(text.substr(0, length))};
}

// Returns how many bytes fit, in whole characters.
std::size_t bytes_within(std::string_view text, std::size_t width) {
  std::size_t bytes = 0;
  std::size_t used = 0;
  while (bytes < text.size()) {
    const CharacterSize step = character_size(text.substr(bytes));
    if (used + step.columns > width) break;
    used += step.columns;
    bytes += step.bytes;
  }
  return bytes;
}

}  // namespace

void FittedTable::add(std::vector<Cell> cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) columns[i].cells.push_back(std::move(cells[i]));
}

Printable FittedTable::text(const Screen& screen) const {
  std::vector<ShownColumn> shown;
  for (const Column& column : columns) shown.push_back(full_column(column));
  while (!screen.has_room_for(total(shown)) && drop_next(shown)) continue;
  Printable out = line_of(screen, shown, std::nullopt);
  const std::size_t rows = columns.empty() ? 0 : columns.front().cells.size();
  for (std::size_t row = 0; row < rows; ++row) out += line_of(screen, shown, row);
  return out;
}

Printable bar(const Screen& screen, Tone tone, double share, std::size_t width) {
  const double clamped = std::clamp(share, 0.0, 1.0);
  auto filled = static_cast<std::size_t>(std::lround(clamped * static_cast<double>(width)));
  if (filled == 0 && clamped > 0) filled = 1;  // a small share still shows
  std::string full;
  std::string rest;
  for (std::size_t i = 0; i < filled; ++i) full += screen.utf8 ? "\u2501" : "#";
  for (std::size_t i = filled; i < width; ++i) rest += screen.utf8 ? "\u2500" : "-";
  return painted(screen, tone, full) + painted(screen, Tone::faint, rest);
}

std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const CharacterSize step = character_size(text);
    width += step.columns;
    text.remove_prefix(step.bytes);
  }
  return width;
}

std::size_t visible_width(std::string_view painted_text) {
  std::string plain;
  while (!painted_text.empty()) {
    if (painted_text.starts_with("\x1b[")) {
      painted_text.remove_prefix(std::min(painted_text.find('m'), painted_text.size() - 1) + 1);
      continue;
    }
    plain += painted_text.front();
    painted_text.remove_prefix(1);
  }
  return width_of(plain);
}

std::string truncate_text(std::string_view text, std::size_t width, bool utf8) {
  if (width_of(text) <= width) return std::string(text);
  const std::string_view sign = utf8 ? "\u2026" : "...";
  const std::size_t sign_width = utf8 ? 1 : 3;
  if (width <= sign_width) return std::string(text.substr(0, bytes_within(text, width)));
  return std::string(text.substr(0, bytes_within(text, width - sign_width))).append(sign);
}

std::vector<std::string> wrap_text(std::string_view text, std::size_t width) {
  width = std::max<std::size_t>(width, 1);
  std::vector<std::string> lines;
  while (width_of(text) > width) {
    std::size_t end = std::max<std::size_t>(bytes_within(text, width), 1);
    // A blank just after the width is a place to break, too.
    const std::size_t blank = text.substr(0, end + 1).rfind(' ');
    const bool at_blank = blank != std::string_view::npos && blank > 0;
    if (at_blank) end = blank;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(at_blank ? end + 1 : end);
  }
  lines.emplace_back(text);
  return lines;
}

Printable paragraph(const Screen& screen, Tone tone, std::string_view text) {
  const std::size_t width = screen.columns > 0 ? screen.columns : text.size();
  Printable out;
  for (const std::string& line : wrap_text(printable(text), width))
    out += painted(screen, tone, line) + "\n";
  return out;
}

}  // namespace gpuyard::cli
