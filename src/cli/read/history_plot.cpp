#include "cli/read/history_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "base/local_time.h"
#include "cli/screen/fitted_table.h"

namespace gpuyard::cli {
namespace {

using protocol::History;
using protocol::HistoryPoint;

// The number of dots in a character, across and down.
struct DotGrid {
  std::size_t across;
  std::size_t down;
};

// In the order of the charsets.
constexpr std::array kDots = {DotGrid{2, 4}, DotGrid{1, 2}, DotGrid{1, 1}};

class Canvas {
 public:
  Canvas(std::size_t columns, std::size_t rows, PlotCharset charset)
      : dots_(kDots[static_cast<std::size_t>(charset)]),
        charset_(charset),
        width_(columns * dots_.across),
        height_(rows * dots_.down),
        set_(width_ * height_) {}

  std::size_t width() const { return width_; }
  std::size_t height() const { return height_; }
  void set(std::size_t x, std::size_t y) { set_[y * width_ + x] = true; }

  // Draws one row; row 0 is the top.
  std::string row(std::size_t row) const {
    std::string out;
    for (std::size_t x = 0; x < width_; x += dots_.across) out += sign(x, row * dots_.down);
    return out;
  }

 private:
  bool at(std::size_t x, std::size_t y) const { return set_[y * width_ + x]; }

  std::string sign(std::size_t x, std::size_t y) const {
    if (charset_ == PlotCharset::ascii) return at(x, y) ? "#" : " ";
    if (charset_ == PlotCharset::block) {
      constexpr std::array<const char*, 4> kHalves = {" ", "▀", "▄", "█"};
      return kHalves[(at(x, y) ? 1U : 0U) + (at(x, y + 1) ? 2U : 0U)];
    }
    // U+2800 and a bit for each dot, in the order of the standard.
    constexpr std::array<std::array<unsigned, 2>, 4> kBits = {
        {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    unsigned bits = 0;
    for (std::size_t i = 0; i < dots_.across; ++i) {
      for (std::size_t j = 0; j < dots_.down; ++j) bits |= at(x + i, y + j) ? kBits[j][i] : 0U;
    }
    if (bits == 0) return " ";
    return {'\xE2', static_cast<char>(0xA0U + (bits >> 6U)),
            static_cast<char>(0x80U + (bits & 0x3fU))};
  }

  DotGrid dots_;
  PlotCharset charset_;
  std::size_t width_;
  std::size_t height_;
  std::vector<bool> set_;
};

struct Range {
  double low = 0;
  double high = 1;
};

// Without a bound, begins at 0 if that leaves half of the height to the values.
Range range_of(const History& history, PlotRange plot_range) {
  Range range{INFINITY, -INFINITY};
  for (const HistoryPoint& point : history.points) {
    if (!point.mean) continue;
    range.low = std::min(range.low, *point.min);
    range.high = std::max(range.high, *point.max);
  }
  if (!(range.low <= range.high)) return {0, history.bound.value_or(1)};
  if (plot_range == PlotRange::whole && history.bound && range.low >= 0) {
    return {0, std::max(range.high, *history.bound)};
  }
  if (plot_range == PlotRange::whole && range.low >= 0 && range.low <= range.high / 2)
    range.low = 0;
  if (range.low == range.high) return {range.low - 1, range.high + 1};
  return range;
}

std::size_t scaled(double share, std::size_t count) {
  const double at = std::floor(share * static_cast<double>(count));
  return static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(count - 1)));
}

// Draws dot columns [first, last] of each point, up to the next point, so that no gap is left.
void draw(Canvas& canvas, const History& history, const TimeSpan& span, const Range& range) {
  const auto length = static_cast<double>(std::max<std::int64_t>(span.until_ms - span.from_ms, 1));
  const auto column = [&](std::int64_t at_ms) {
    return scaled(static_cast<double>(at_ms - span.from_ms) / length, canvas.width());
  };
  const auto line = [&](double value) {
    const double share = (value - range.low) / (range.high - range.low);
    return canvas.height() - 1 - scaled(share, canvas.height());
  };
  const HistoryPoint* before = nullptr;
  for (std::size_t i = 0; i < history.points.size(); ++i) {
    const HistoryPoint& point = history.points[i];
    const bool last = i + 1 == history.points.size();
    const std::int64_t end_ms =
        last ? point.t_ms + std::max<std::int64_t>(history.step_ms, 1) : history.points[i + 1].t_ms;
    if (point.mean) {
      const std::size_t first = column(point.t_ms);
      for (std::size_t x = first; x <= column(std::max(end_ms - 1, point.t_ms)); ++x) {
        const bool joins = x == first && before != nullptr;
        const double low = joins ? std::min(*point.min, *before->mean) : *point.min;
        const double high = joins ? std::max(*point.max, *before->mean) : *point.max;
        for (std::size_t y = line(high); y <= line(low); ++y) canvas.set(x, y);
      }
    }
    before = point.mean ? &point : nullptr;
  }
}

std::string time_text(std::int64_t wall_ms, bool with_day) {
  return format_local(WallTime(std::chrono::milliseconds(wall_ms)),
                      with_day ? "%m-%d %H:%M" : "%H:%M:%S");
}

// Writes the begin and the end of the time, with the zone, and the middle if there is room.
std::string times_line(const TimeSpan& span, std::size_t columns) {
  constexpr std::int64_t kDayMs = std::int64_t{24} * 3600 * 1000;
  const bool with_day = span.until_ms - span.from_ms >= kDayMs / 2;
  const std::string from = time_text(span.from_ms, with_day);
  const std::string until =
      fmt::format("{} {}", time_text(span.until_ms, with_day),
                  zone_name(WallTime(std::chrono::milliseconds(span.until_ms))));
  const std::string middle = time_text(span.from_ms + (span.until_ms - span.from_ms) / 2, with_day);
  std::string line(columns, ' ');
  const auto put = [&](std::size_t at, const std::string& text) {
    if (at + text.size() <= columns) line.replace(at, text.size(), text);
  };
  put(0, from);
  if (columns > 4 * middle.size()) put((columns - middle.size()) / 2, middle);
  if (columns > 2 * until.size()) put(columns - until.size(), until);
  return line;
}

std::string heading_of(const History& history) {
  const std::string gpu = history.index ? fmt::format("GPU {}", *history.index) : history.uuid;
  const std::string element = history.element ? " " + *history.element : "";
  return fmt::format("{} {}  {}{}", gpu, history.name.value_or("(not present)"), history.metric,
                     element);
}

}  // namespace

Printable history_plot(const History& history, const TimeSpan& span, const PlotSize& size,
                       PlotCharset charset, const Screen& screen, PlotRange plot_range) {
  const Range range = range_of(history, plot_range);
  std::vector<std::string> labels(size.rows);
  labels.front() = amount_text(range.high, history.unit);
  const std::size_t middle = size.rows / 2;
  labels[middle] = amount_text(range.high - (range.high - range.low) * static_cast<double>(middle) /
                                                static_cast<double>(size.rows - 1),
                               history.unit);
  labels.back() = amount_text(range.low, history.unit);
  std::size_t margin = 0;
  for (const std::string& label : labels) margin = std::max(margin, width_of(label));
  constexpr std::size_t kMinColumns = 10;
  const std::size_t columns = std::max(size.columns, margin + 2 + kMinColumns) - margin - 2;
  const bool ascii = charset == PlotCharset::ascii;
  Canvas canvas(columns, size.rows, charset);
  draw(canvas, history, span, range);
  Printable out = painted(screen, Tone::strong, heading_of(history)) + "\n";
  for (std::size_t row = 0; row < size.rows; ++row) {
    const std::string pad(margin - width_of(labels[row]), ' ');
    const char* const tick = labels[row].empty() ? (ascii ? "|" : "│") : (ascii ? "+" : "┤");
    out += painted(screen, Tone::faint, pad + labels[row] + " " + tick);
    out += painted(screen, Tone::busy, canvas.row(row)) + "\n";
  }
  std::string axis = std::string(margin + 1, ' ') + (ascii ? "+" : "└");
  for (std::size_t i = 0; i < columns; ++i) axis += ascii ? "-" : "─";
  out += painted(screen, Tone::faint, axis) + "\n";
  out += painted(screen, Tone::faint, std::string(margin + 2, ' ') + times_line(span, columns));
  return out + "\n";
}

}  // namespace gpuyard::cli
