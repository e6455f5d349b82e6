// One GPU: its last two minutes, what holds it back, and what it is made of.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/record.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"
#include "cli/top/render.h"
#include "device/catalog.h"

namespace gpuyard::cli::top {
namespace {

using protocol::Device;

// The share of a value in one of the rows of a plot, from the lowest.
double within(double share, std::size_t row, std::size_t rows) {
  if (share < 0) return share;
  const double each = 1.0 / static_cast<double>(rows);
  return std::clamp((share - each * static_cast<double>(row)) / each, 0.0, 1.0);
}

void draw_plot(Grid& grid, Rows rows, const std::vector<double>& values, Charset charset) {
  constexpr std::size_t kLeft = 6;
  const std::size_t width = grid.size().columns > kLeft + 2 ? grid.size().columns - kLeft - 2 : 0;
  const std::size_t height = rows.count();
  for (std::size_t row = 0; row < height; ++row) {
    std::vector<double> shares;
    for (const double value : values) shares.push_back(within(value, height - 1 - row, height));
    grid.put(kLeft, rows.first + row, sparkline(shares, width, charset), {Tone::good});
  }
  grid.put_right(kLeft - 1, rows.first, "100%", {Tone::faint});
  if (height > 1) grid.put_right(kLeft - 1, rows.until - 1, "0%", {Tone::faint});
}

// "PCIe 5 x16 of 5 x16"
std::string links_of(const Device& device) {
  const auto number = [&](Metric metric) {
    const auto value = device.readings.get(metric);
    return value ? std::to_string(*value) : std::string(kNothing);
  };
  return fmt::format("PCIe {} x{} of {} x{}", number(Metric::pcie_generation),
                     number(Metric::pcie_width), number(Metric::pcie_generation_max),
                     number(Metric::pcie_width_max));
}

std::string value_of(const Device& device, Metric metric, const Screen& screen) {
  const Reading* const reading = device.readings.sample.find(metric);
  if (reading == nullptr || reading->missing() != nullptr) return std::string(kNothing);
  return value_text(row_of(metric), *reading, screen);
}

}  // namespace

std::size_t draw_gpu_page(Grid& grid, Rows rows, const Model& model, Charset charset) {
  const auto& devices = model.news.snapshot.devices;
  if (model.gpu >= devices.size() || rows.count() < 2) return rows.first;
  const Device& device = devices[model.gpu];
  const Screen screen{.utf8 = charset != Charset::ascii};
  grid.put(1, rows.first++,
           fmt::format("GPU {} {}  {}  {}  {}", device.index, short_name(device.name), device.uuid,
                       device.pci_address, device.health ? enum_name(*device.health) : "health ?"),
           {health_tone(device)});
  rows.first = draw_reason(grid, rows, model);
  constexpr std::size_t kBelow = 12;
  const std::size_t height = rows.count() > kBelow ? std::min<std::size_t>(rows.count() - kBelow, 8)
                                                   : std::min<std::size_t>(rows.count(), 1);
  if (const auto known = model.recent.find(device.uuid); known != model.recent.end()) {
    grid.put(1, rows.first, "SM%", {Tone::faint});
    draw_plot(grid, {rows.first, rows.first + height}, {known->second.begin(), known->second.end()},
              charset);
    rows.first += height;
  }
  const auto line = [&](const std::string& text) {
    if (rows.count() > 0) grid.put(1, rows.first++, text);
  };
  const auto value = [&](Metric metric) { return value_of(device, metric, screen); };
  line(fmt::format("power   {} of {}   energy {}", value(Metric::power_draw),
                   value(Metric::power_limit), value(Metric::energy_total)));
  line(fmt::format("memory  {} of {}   bandwidth {}", value(Metric::memory_used),
                   value(Metric::memory_total), value(Metric::utilization_memory)));
  line(fmt::format("heat    {} core, {} memory, slows down at {}", value(Metric::temperature_core),
                   value(Metric::temperature_memory), value(Metric::temperature_slowdown)));
  line(fmt::format("clocks  SM {} of {}, memory {}", value(Metric::clock_sm),
                   value(Metric::clock_sm_max), value(Metric::clock_memory)));
  line(fmt::format("links   {}   in {}, out {}", links_of(device), value(Metric::pcie_rx),
                   value(Metric::pcie_tx)));
  if (const protocol::Lease* const lease = lease_of(model, device)) {
    line(fmt::format("lease   {} of {}", lease->id,
                     lease->user.value_or(std::to_string(lease->uid))));
  }
  Model own = model;
  own.news.snapshot.devices = {device};
  return draw_processes(grid, rows, own, 0);
}

}  // namespace gpuyard::cli::top
