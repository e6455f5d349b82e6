#include "cli/top/grid.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/screen/fitted_table.h"

namespace gpuyard::cli::top {
namespace {

constexpr char kReset[] = "\x1b[0m";

// In the order of Tone. Okabe and Ito's colours keep apart for every eye; on a terminal of 16 its
// own are used.
constexpr std::array<std::string_view, 7> kTrueColor = {"",
                                                        "1",
                                                        "38;2;150;150;150",
                                                        "38;2;0;158;115",
                                                        "38;2;86;180;233",
                                                        "38;2;230;159;0",
                                                        "1;38;2;240;110;60"};
constexpr std::array<std::string_view, 7> k256Colors = {
    "", "1", "38;5;246", "38;5;36", "38;5;74", "38;5;214", "1;38;5;209"};
constexpr std::array<std::string_view, 7> k16Colors = {"", "1", "90", "32", "36", "33", "1;31"};
constexpr std::array<std::string_view, 7> kNoColors = {"", "1", "", "", "", "1", "1"};

Printable code_of(Style style, Palette palette) {
  const auto& codes = palette == Palette::true_color ? kTrueColor
                      : palette == Palette::of_256   ? k256Colors
                      : palette == Palette::of_16    ? k16Colors
                                                     : kNoColors;
  std::string code(codes.at(static_cast<std::size_t>(style.tone)));
  if (style.reversed) code += code.empty() ? "7" : ";7";
  return code.empty() ? kReset : formatted("\x1b[0;{}m", code);
}

Printable move_to(std::size_t column, std::size_t row) {
  return formatted("\x1b[{};{}H", row + 1, column + 1);
}

constexpr std::array<std::string_view, 9> kBlocks = {"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 9> kLetters = {".", "_", ",", "-", "=", "+", "*", "%", "#"};

double clamp_share(double share) {
  return std::clamp(share, 0.0, 1.0);
}

// A value of a gap is below 0.
std::size_t step_of(double share, std::size_t steps) {
  if (share <= 0) return 0;
  const double step = std::ceil(clamp_share(share) * static_cast<double>(steps));
  return static_cast<std::size_t>(step);
}

// Two values side by side, each of four dots from below (U+2800).
std::string braille(double left, double right) {
  constexpr std::array<unsigned, 5> kLeft = {0x00, 0x40, 0x44, 0x46, 0x47};
  constexpr std::array<unsigned, 5> kRight = {0x00, 0x80, 0xA0, 0xB0, 0xB8};
  const unsigned dots = kLeft.at(step_of(left, 4)) | kRight.at(step_of(right, 4));
  const unsigned code = 0x2800U | dots;
  return {static_cast<char>(0xE2), static_cast<char>(0x80U | (code >> 6U & 0x3FU)),
          static_cast<char>(0x80U | (code & 0x3FU))};
}

}  // namespace

// A wide sign that loses one of its cells is gone.
void Grid::clear(std::size_t column, std::size_t row) {
  const auto blank = [](Cell& cell) { cell = Cell{" ", cell.style, false}; };
  if (at(column, row).continues && column > 0) blank(at(column - 1, row));
  if (column + 1 < size_.columns && at(column + 1, row).continues) blank(at(column + 1, row));
  blank(at(column, row));
}

std::size_t Grid::put(std::size_t column, std::size_t row, std::string_view text, Style style,
                      std::size_t width) {
  if (row >= size_.rows || column >= size_.columns) return column;
  const std::size_t end = width < size_.columns - column ? column + width : size_.columns;
  const std::string shown = printable(text);
  std::string_view rest = shown;
  std::size_t last = SIZE_MAX;  // the cell of the newest sign, which takes combining marks
  while (!rest.empty()) {
    const std::string_view sign =
        rest.substr(0, std::max<std::size_t>(utf8_sequence_length(rest), 1));
    rest.remove_prefix(sign.size());
    const std::size_t wide = width_of(sign);
    constexpr std::size_t kMaxMarkBytes = 32;  // bytes: a name may consist of marks
    if (wide == 0) {
      if (last != SIZE_MAX && at(last, row).sign.size() < kMaxMarkBytes) at(last, row).sign += sign;
      continue;
    }
    if (column + wide > end) break;
    for (std::size_t i = 0; i < wide; ++i) clear(column + i, row);
    at(column, row) = {std::string(sign), style, false};
    for (std::size_t i = 1; i < wide; ++i) at(column + i, row) = {"", style, true};
    last = column;
    column += wide;
  }
  return column;
}

void Grid::put_right(std::size_t end, std::size_t row, std::string_view text, Style style) {
  const std::size_t width = width_of(printable(text));
  put(end > width ? end - width : 0, row, text, style);
}

void Grid::restyle(std::size_t row, std::size_t from, std::size_t until, Style style) {
  if (row >= size_.rows) return;
  for (std::size_t column = from; column < std::min(until, size_.columns); ++column) {
    at(column, row).style = style;
  }
}

void Grid::mark(std::size_t row, std::size_t from, std::size_t until, std::string_view about) {
  areas_.push_back({row, from, until, std::string(about)});
}

std::string_view Grid::about(std::size_t column, std::size_t row) const {
  for (const Area& area : areas_) {
    if (area.row == row && column >= area.from && column < area.until) return area.about;
  }
  return "";
}

Printable Grid::text() const {
  Printable out;
  for (std::size_t row = 0; row < size_.rows; ++row) {
    std::string line;
    for (std::size_t column = 0; column < size_.columns; ++column) line += at(column, row).sign;
    line.erase(line.find_last_not_of(' ') + 1);
    out += formatted("{}\n", line);
  }
  return out;
}

Printable Grid::diff_bytes(const Grid& before, Palette palette) const {
  const bool redraws_all = before.size_ != size_;
  Printable out = redraws_all ? kReset + Printable("\x1b[2J") : Printable();
  Style now;
  bool styled = false;
  for (std::size_t row = 0; row < size_.rows; ++row) {
    std::size_t cursor = SIZE_MAX;  // the column at which the terminal writes next
    for (std::size_t column = 0; column < size_.columns; ++column) {
      const Cell& cell = at(column, row);
      static const Cell kBlank;
      if (cell.continues || cell == (redraws_all ? kBlank : before.at(column, row))) continue;
      if (cursor != column) out += move_to(column, row);
      if (!styled || !(now == cell.style)) {
        out += code_of(cell.style, palette);
        now = cell.style;
        styled = true;
      }
      out += Printable(cell.sign);
      cursor = column + std::max<std::size_t>(width_of(cell.sign), 1);
    }
  }
  if (styled) out += kReset;
  return out;
}

Palette palette_of(std::string_view term, std::string_view colorterm, bool color) {
  if (!color || term == "dumb") return Palette::mono;
  const bool direct = term.find("direct") != term.npos;
  if (direct || colorterm == "truecolor" || colorterm == "24bit") return Palette::true_color;
  return term.find("256") != term.npos ? Palette::of_256 : Palette::of_16;
}

std::string_view level(double share, Charset charset) {
  if (share < 0) return " ";
  const auto& signs = charset == Charset::ascii ? kLetters : kBlocks;
  return signs.at(step_of(share, signs.size() - 1));
}

std::string sparkline(const std::vector<double>& values, std::size_t width, Charset charset) {
  const std::size_t each = charset == Charset::braille ? 2 : 1;
  std::vector<double> shown(width * each, kNoValue);
  const std::size_t count = std::min(values.size(), shown.size());
  std::copy(values.end() - static_cast<std::ptrdiff_t>(count), values.end(),
            shown.end() - static_cast<std::ptrdiff_t>(count));
  std::string out;
  for (std::size_t i = 0; i < shown.size(); i += each) {
    if (each == 2) {
      out += braille(shown[i], shown[i + 1]);
    } else {
      out += level(shown[i], charset);
    }
  }
  return out;
}

std::string meter(double share, std::size_t width, Charset charset) {
  const auto filled =
      static_cast<std::size_t>(std::lround(clamp_share(share) * static_cast<double>(width)));
  std::string out;
  for (std::size_t i = 0; i < width; ++i) {
    const bool full = i < filled;
    out += charset == Charset::ascii ? (full ? "#" : ".") : (full ? "▓" : "·");
  }
  return out;
}

}  // namespace gpuyard::cli::top
