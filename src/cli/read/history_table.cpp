#include "cli/read/history_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ranges>

#include <fmt/format.h>

#include "base/local_time.h"
#include "base/saturated.h"
#include "base/text.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"
#include "gpuyard/sparkline.h"

namespace gpuyard::cli {
namespace {

using protocol::History;

constexpr double kBlank = std::numeric_limits<double>::quiet_NaN();

// Draws the eight heights in ASCII.
std::string to_ascii(std::string_view line) {
  constexpr std::array<std::string_view, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::string_view kSigns = "_.:-=+*#";
  std::string out;
  while (!line.empty()) {
    const std::string_view sign = line.substr(0, utf8_sequence_length(line));
    const auto bar = std::ranges::find(kBars, sign);
    out += bar != kBars.end() ? kSigns[static_cast<std::size_t>(bar - kBars.begin())] : ' ';
    line.remove_prefix(sign.size());
  }
  return out;
}

// Draws a counter by its growth up to each point. The growth is unknown where it was set back.
History growth_of(History counter) {
  const protocol::HistoryPoint* before = nullptr;
  const std::vector<protocol::HistoryPoint> points = counter.points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    auto& grown = counter.points[i];
    grown.min = grown.mean = grown.max = std::nullopt;
    if (before != nullptr && points[i].max && before->max && *points[i].max >= *before->max) {
      const auto passed = static_cast<double>(points[i].t_ms - before->t_ms);
      grown.mean = (*points[i].max - *before->max) / passed;
    }
    before = &points[i];
  }
  return counter;
}

// Returns the value of the full height.
double greatest(const std::vector<std::vector<double>>& lines) {
  double most = 0;
  for (const auto& line : lines) {
    for (const double value : line) {
      if (!std::isnan(value)) most = std::max(most, value);
    }
  }
  return most;
}

std::vector<std::string> shapes(const std::vector<History>& all, bool ascii) {
  const TimeSpan span = span_of(all);
  std::vector<std::vector<double>> lines;
  for (const History& one : all) {
    const auto columns = [&](const History& of) {
      return columns_of(of, span.from_ms, span.until_ms, kSparkColumns);
    };
    lines.push_back(one.counter ? columns(growth_of(one)) : columns(one));
  }
  const double most = greatest(lines);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool percent = all[i].unit == "%";
    const std::string line = percent ? sparkline(lines[i]) : sparkline(lines[i], most);
    out.push_back(ascii ? to_ascii(line) : line);
  }
  return out;
}

using protocol::BottleneckSpan;
using protocol::GpuBottlenecks;

constexpr double kMinUnknownSeconds = 60;  // s: a daemon that has begun knows nothing yet

std::string gpu_text(const GpuBottlenecks& gpu) {
  return gpu.index ? std::to_string(*gpu.index) : gpu.uuid;
}

std::string cause_text(BottleneckCause cause) {
  if (cause == BottleneckCause::stale) return "not responding";  // as in `brief`
  std::string text(enum_name(cause));
  std::ranges::replace(text, '_', ' ');
  return text;
}

std::string shares_text(const GpuBottlenecks& gpu) {
  std::string text;
  for (const protocol::CauseShare& share : gpu.shares) {
    text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", cause_text(share.cause),
                        share.percent);
  }
  return text.empty() ? std::string(kNothing) : text;
}

double duration_of(const BottleneckSpan& span) {
  const auto began = from_rfc3339(span.began);
  const auto ended = from_rfc3339(span.ended);
  return began && ended ? std::chrono::duration<double>(*ended - *began).count() : 0;
}

bool is_slow(const BottleneckSpan& span) {
  const BottleneckCause cause = span.bottleneck.cause;
  if (cause == BottleneckCause::not_known) return duration_of(span) >= kMinUnknownSeconds;
  return cause != BottleneckCause::none;
}

}  // namespace

TimeSpan span_of(const std::vector<History>& all) {
  TimeSpan span;
  for (const History& one : all) {
    if (one.points.empty()) continue;
    span.from_ms = std::min(span.from_ms, one.points.front().t_ms);
    span.until_ms =
        std::max(span.until_ms, one.points.back().t_ms + std::max<std::int64_t>(one.step_ms, 1));
  }
  return span;
}

std::vector<double> columns_of(const History& history, std::int64_t from_ms, std::int64_t until_ms,
                               std::size_t columns) {
  if (until_ms <= from_ms) return std::vector<double>(columns, kBlank);  // there are no points
  std::vector<double> sums(columns, 0);
  std::vector<int> counts(columns, 0);
  const auto length = static_cast<double>(until_ms - from_ms);
  for (std::size_t i = 0; i < history.points.size(); ++i) {
    const auto& point = history.points[i];
    if (!point.mean) continue;
    // A step reaches to the next point.
    const bool last = i + 1 == history.points.size();
    const std::int64_t end_ms = last ? until_ms : history.points[i + 1].t_ms;
    const auto column = [&](std::int64_t at_ms) {
      const double share = (static_cast<double>(at_ms) - static_cast<double>(from_ms)) / length;
      return std::min(saturated_cast<std::size_t>(share * static_cast<double>(columns)),
                      columns - 1);
    };
    for (std::size_t at = column(point.t_ms); at <= column(std::max(end_ms - 1, point.t_ms));
         ++at) {
      sums[at] += *point.mean;
      ++counts[at];
    }
  }
  for (std::size_t i = 0; i < columns; ++i) sums[i] = counts[i] > 0 ? sums[i] / counts[i] : kBlank;
  return sums;
}

std::string amount_text(double value, const std::string& unit) {
  if (unit == "B" || unit == "B/s") {
    return bytes_text(saturated_cast<std::int64_t>(value)) + (unit == "B/s" ? "/s" : "");
  }
  const double size = std::abs(value);
  const int digits = size >= 1000 || value == std::floor(value) ? 0 : size >= 100 ? 1 : 2;
  return fmt::format("{:.{}f}{}{}", value, digits, unit.empty() ? "" : " ", unit);
}

Printable history_table(const std::vector<History>& all, const Screen& screen, bool ascii) {
  Column gpu{"GPU"};
  Column name{"NAME", false, 2};
  Column shape{all.empty() ? "" : all.front().metric, false, 1};
  std::array<Column, 4> amounts = {Column{"MIN", true}, Column{"MEAN", true}, Column{"MAX", true},
                                   Column{"LAST", true}};
  const auto lines = shapes(all, ascii);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const History& one = all[i];
    gpu.cells.push_back({one.index ? std::to_string(*one.index) : one.uuid});
    name.cells.push_back({one.name ? short_name(*one.name) : "not present"});
    shape.cells.push_back({lines[i], Tone::busy});
    const auto& summary = one.summary;
    const std::array values = {summary.min, summary.mean, summary.max, summary.last};
    for (std::size_t v = 0; v < values.size(); ++v) {
      amounts[v].cells.push_back(
          {values[v] ? amount_text(*values[v], one.unit) : std::string(cli::kNothing)});
    }
  }
  FittedTable table{{std::move(gpu), std::move(name), std::move(shape)}};
  for (Column& amount : amounts) table.columns.push_back(std::move(amount));
  return table.text(screen);
}

Printable bottleneck_tables(const protocol::Bottlenecks& bottlenecks, const Screen& screen,
                            WallTime now) {
  FittedTable shares{{{"GPU"}, {"COVERAGE", true}, {"BOTTLENECKS BY SHARE OF COVERED TIME"}}};
  FittedTable spans{{{"GPU"},
                     {heading_with_zone("FROM", now)},
                     {heading_with_zone("UNTIL", now)},
                     {"DURATION", true},
                     {"BOTTLENECK"},
                     {"AT ITS PEAK", false, 1}}};
  for (const GpuBottlenecks& gpu : bottlenecks.gpus) {
    const double known = bottlenecks.seconds > 0 ? gpu.known_seconds / bottlenecks.seconds : 0;
    shares.add({{gpu_text(gpu)}, {fmt::format("{:.0f} %", known * 100)}, {shares_text(gpu)}});
    for (const BottleneckSpan& span :
         gpu.spells | std::views::reverse | std::views::filter(is_slow)) {
      spans.add({{gpu_text(gpu)},
                 {local_moment(span.began, now)},
                 {span.on ? "now" : local_moment(span.ended, now)},
                 {short_duration(std::llround(duration_of(span)))},
                 {span.bottleneck.brief},
                 {span.bottleneck.text}});
    }
  }
  Printable out = shares.text(screen);
  const bool none = spans.columns.front().cells.empty();
  const bool known = std::ranges::any_of(
      bottlenecks.gpus, [](const protocol::GpuBottlenecks& gpu) { return gpu.known_seconds > 0; });
  if (none) {
    out +=
        known ? Printable("No bottlenecks in the time covered.\n") : "No data for this period.\n";
  } else {
    out += "\n" + spans.text(screen);
  }
  if (!bottlenecks.complete)
    out += paragraph(screen, Tone::warning, "Only the newest entries are listed.");
  if (bottlenecks.simulated) out += paragraph(screen, Tone::faint, "These GPUs are simulated.");
  return out;
}

}  // namespace gpuyard::cli
