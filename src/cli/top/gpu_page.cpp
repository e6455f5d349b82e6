// One GPU: its last two minutes, what holds it back, and what it is made of.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/record.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"
#include "cli/top/render.h"
#include "gpu/device/catalog.h"

namespace gpuyard::cli::top {
namespace {

using protocol::Device;

// A metric over time: shares of `full` from 0 to 1, the newest last.
struct Plot {
  std::string name;
  std::string full;  // what a share of 1 means
  std::string summary = {};
  std::vector<double> shares = {};
};

// The share of a value in one of the rows of a plot, from the lowest.
double within(double share, std::size_t row, std::size_t rows) {
  if (share < 0) return share;
  const double each = 1.0 / static_cast<double>(rows);
  return std::clamp((share - each * static_cast<double>(row)) / each, 0.0, 1.0);
}

constexpr std::size_t kPlotLeft = 6;
constexpr std::size_t kPlotRight = 18;  // for the summary

std::size_t plot_width(const Grid& grid) {
  const std::size_t taken = kPlotLeft + kPlotRight + 1;
  return grid.size().columns > taken ? grid.size().columns - taken : 0;
}

void draw_plot(Grid& grid, RowRange rows, const Plot& plot, Charset charset) {
  const std::size_t width = plot_width(grid);
  const std::size_t height = rows.count();
  for (std::size_t row = 0; row < height; ++row) {
    std::vector<double> shares;
    for (const double share : plot.shares) {
      shares.push_back(within(share, height - 1 - row, height));
    }
    grid.put(kPlotLeft, rows.first + row, sparkline(shares, width, charset), {Tone::good});
  }
  grid.put_right(kPlotLeft - 1, rows.first, plot.full, {Tone::faint});
  grid.put(1, rows.first + (height > 1 ? 1 : 0), height > 1 ? plot.name : "", {Tone::faint});
  if (height > 2) grid.put_right(kPlotLeft - 1, rows.until - 1, "0", {Tone::faint});
  grid.put(kPlotLeft + width + 1, rows.first, plot.summary, {Tone::faint});
}

// One share for each sign of the plot, by the time that the sign stands for.
Plot plot_of(const protocol::HistoryColumns& charts, const protocol::HistoryColumn& column,
             std::string name, double full, std::string_view unit, std::size_t signs) {
  Plot plot{std::move(name), fmt::format("{:.0f}{}", full, unit)};
  const auto length = static_cast<double>(charts.until_ms - charts.since_ms);
  for (std::size_t sign = 0; sign < signs; ++sign) {
    const double share = (static_cast<double>(sign) + 0.5) / static_cast<double>(signs);
    const auto at = charts.since_ms + static_cast<std::int64_t>(length * share);
    const std::int64_t step = std::max<std::int64_t>(column.step_ms, 1);
    const std::int64_t place = at >= column.first_ms ? (at - column.first_ms) / step : -1;
    const bool there = place >= 0 && place < std::ssize(column.mean);
    const auto mean = there ? column.mean[static_cast<std::size_t>(place)] : std::nullopt;
    plot.shares.push_back(mean && full > 0 ? *mean / full : kNoValue);
  }
  double sum = 0;
  std::size_t known = 0;
  std::optional<double> least;
  for (std::size_t i = 0; i < column.mean.size(); ++i) {
    if (!column.mean[i]) continue;
    sum += *column.mean[i];
    ++known;
    if (column.min[i]) least = std::min(least.value_or(*column.min[i]), *column.min[i]);
  }
  if (known > 0) {
    plot.summary = fmt::format("mean {:.0f}", sum / static_cast<double>(known));
    if (least) plot.summary += fmt::format(" min {:.0f}", *least);
  }
  return plot;
}

std::vector<Plot> plots_of(const Model& model, const Device& device, std::size_t signs) {
  std::vector<Plot> plots;
  const auto& charts = model.data.charts;
  for (const protocol::HistoryColumn& column : charts.series) {
    if (column.uuid != device.uuid) continue;
    const bool power = column.unit == "W";
    double full = 100;
    if (power) {
      const auto* limit = device.readings.number(Metric::power_limit);
      full = limit ? static_cast<double>(*limit) / 1000 : column.bound.value_or(0);
    }
    plots.push_back(plot_of(charts, column, power ? "W" : "SM%", full, power ? "W" : "%", signs));
  }
  if (!plots.empty()) return plots;
  const auto recent = model.utilization.find(device.uuid);
  if (recent == model.utilization.end()) return plots;
  return {{"SM%", "100%", "", {recent->second.begin(), recent->second.end()}}};
}

// The marks of the GPU, below its charts and on the same line of time.
void draw_marks(Grid& grid, std::size_t row, const Model& model, const Device& device) {
  const auto& charts = model.data.charts;
  const std::size_t width = plot_width(grid);
  if (width == 0 || charts.until_ms <= charts.since_ms) return;
  std::string line(width, '.');
  for (const TimelineMark& mark : model.data.marks) {
    const std::int64_t since = to_unix_ms(mark.at) - charts.since_ms;
    const std::int64_t length = charts.until_ms - charts.since_ms;
    if (mark.gpu != device.uuid || since < 0 || since >= length) continue;
    line[static_cast<std::size_t>(since) * width / static_cast<std::size_t>(length)] = mark.sign;
  }
  grid.put(1, row, "event", {Tone::faint});
  grid.put(kPlotLeft, row, line, {Tone::busy});
  const auto clock = [&](std::int64_t ms) {
    return local_moment(WallTime(std::chrono::milliseconds(ms)), model.now);
  };
  grid.put(kPlotLeft, row + 1, clock(charts.since_ms), {Tone::faint});
  grid.put_right(kPlotLeft + width, row + 1, clock(charts.until_ms), {Tone::faint});
}

// "PCIe 5 x16 of 5 x16"
std::string links_of(const Device& device) {
  const auto number = [&](Metric metric) {
    const auto* value = device.readings.number(metric);
    return value ? std::to_string(*value) : std::string(kNothing);
  };
  return fmt::format("PCIe {} x{} of {} x{}", number(Metric::pcie_generation),
                     number(Metric::pcie_width), number(Metric::pcie_generation_max),
                     number(Metric::pcie_width_max));
}

std::string value_of(const Device& device, Metric metric, const Screen& screen) {
  const Reading* const reading = device.readings.find(metric);
  if (reading == nullptr || reading->missing() != nullptr) return std::string(kNothing);
  return value_text(row_of(metric), *reading, screen);
}

}  // namespace

std::size_t draw_gpu_page(Grid& grid, RowRange rows, const Model& model, Charset charset) {
  const Device* const chosen = device_of(model);
  if (chosen == nullptr || rows.count() < 2) return rows.first;
  const Device& device = *chosen;
  const Screen screen{.utf8 = charset != Charset::ascii};
  grid.put(
      1, rows.first++,
      fmt::format("GPU {} {}  {}  {}  {}", device.index, short_name(device.name), device.uuid,
                  device.pci_address, device.health ? enum_name(*device.health) : "health unknown"),
      {health_tone(device)});
  rows.first = draw_reason(grid, rows, model);
  const std::size_t each = charset == Charset::braille ? 2 : 1;
  const auto plots = plots_of(model, device, plot_width(grid) * each);
  constexpr std::size_t kBelow = 13;
  constexpr std::size_t kHighest = 8;
  const std::size_t room = rows.count() > kBelow ? rows.count() - kBelow : 1;
  const std::size_t height =
      std::clamp<std::size_t>(room / std::max<std::size_t>(plots.size(), 1), 1, kHighest);
  for (const Plot& plot : plots) {
    if (rows.count() <= height) break;
    draw_plot(grid, {rows.first, rows.first + height}, plot, charset);
    rows.first += height;
  }
  if (!model.data.charts.series.empty() && rows.count() > 2) {
    draw_marks(grid, rows.first, model, device);
    rows.first += 2;
  }
  const auto line = [&](const std::string& text) {
    if (rows.count() > 0) grid.put(1, rows.first++, text);
  };
  const auto value = [&](Metric metric) { return value_of(device, metric, screen); };
  line(fmt::format("power   {} of {}   energy {}", value(Metric::power_draw),
                   value(Metric::power_limit), value(Metric::energy_total)));
  line(fmt::format("memory  {} of {}   bandwidth {}", value(Metric::memory_used),
                   value(Metric::memory_total), value(Metric::utilization_memory)));
  line(fmt::format("temp    {} core, {} memory, slowdown at {}", value(Metric::temperature_core),
                   value(Metric::temperature_memory), value(Metric::temperature_slowdown)));
  line(fmt::format("clocks  SM {} of {}, memory {}", value(Metric::clock_sm),
                   value(Metric::clock_sm_max), value(Metric::clock_memory)));
  line(fmt::format("links   {}   in {}, out {}", links_of(device), value(Metric::pcie_rx),
                   value(Metric::pcie_tx)));
  if (const protocol::Lease* const lease = lease_of(model, device)) {
    line(fmt::format("lease   {} of {}", lease->id, holder_text(*lease)));
  }
  return draw_processes(grid, rows, model);
}

}  // namespace gpuyard::cli::top
