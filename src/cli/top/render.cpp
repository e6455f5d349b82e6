#include "cli/top/render.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"
#include "device/catalog.h"

namespace gpuyard::cli::top {
namespace {

using protocol::Device;
using protocol::Lease;

constexpr double kKilowatt = 1e6;  // milliwatts

// "2.16kW"; with a + where some GPU's is not known: at least that.
std::string kilowatts_of_all(const Model& model, Metric metric) {
  std::int64_t sum = 0;
  bool all = true;
  for (const Device& device : model.news.snapshot.devices) {
    const auto milliwatts = device.readings.get(metric);
    all = all && milliwatts;
    sum += milliwatts.value_or(0);
  }
  return fmt::format("{:.2f}{}", static_cast<double>(sum) / kKilowatt, all ? "" : "+");
}

std::string power_of_all(const Model& model) {
  return fmt::format("{}/{}kW", kilowatts_of_all(model, Metric::power_draw),
                     kilowatts_of_all(model, Metric::power_limit));
}

std::string leases_of_all(const Model& model) {
  const auto& devices = model.news.snapshot.devices;
  if (!model.news.leases) return "";
  const auto leased = std::ranges::count_if(
      devices, [&](const Device& device) { return lease_of(model, device) != nullptr; });
  std::string text = fmt::format("  leased {}/{}", leased, devices.size());
  if (model.news.queue) text += fmt::format(" queue {}", model.news.queue->pending_claimers);
  return text;
}

std::string alerts_of_all(const Model& model) {
  if (!model.news.alerts) return "";
  const auto& alerts = model.news.alerts->alerts;
  const auto severe = std::ranges::count_if(
      alerts, [](const protocol::Alert& alert) { return alert.level >= AlertLevel::error; });
  return fmt::format("  !{} *{}", severe, static_cast<std::ptrdiff_t>(alerts.size()) - severe);
}

void draw_header(Grid& grid, const Model& model) {
  const auto& snapshot = model.news.snapshot;
  const std::string text =
      fmt::format(" {} {} {}  {}{}{}", model.host, snapshot.devices.size(),
                  snapshot.devices.empty() ? "GPUs" : short_name(snapshot.devices.front().name),
                  power_of_all(model), leases_of_all(model), alerts_of_all(model));
  std::string state = snapshot.simulated ? "SIMULATED" : "LIVE";
  if (!model.failure.empty()) {
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(model.now - model.news.heard);
    state = "OLD " + short_length(age.count());
  }
  const std::size_t width = grid.size().columns;
  const std::size_t room = width > state.size() + 3 ? width - state.size() - 3 : 0;
  grid.put(0, 0, text, {Tone::strong}, room);
  grid.put_right(width > 0 ? width - 1 : 0, 0, state,
                 {model.failure.empty() ? Tone::good : Tone::bad});
}

void draw_footer(Grid& grid, const Model& model) {
  const std::size_t rows = grid.size().rows;
  if (rows < 2) return;
  if (!model.failure.empty()) {
    grid.put(1, rows - 1, model.failure, {Tone::bad});
    return;
  }
  const bool list = model.pane == Pane::overview;
  grid.put(1, rows - 1,
           list ? "? help  j k move  Enter one GPU  1-4 Tab panes  d density  q quit"
                : "? help  j k move  Esc back  1-4 Tab panes  q quit",
           {Tone::faint});
}

// The newest alert or, without one, nothing.
void draw_ticker(Grid& grid, const Model& model) {
  const std::size_t rows = grid.size().rows;
  if (rows < 3 || !model.news.alerts || model.news.alerts->alerts.empty()) return;
  std::size_t column = 1;
  for (const protocol::Alert& alert : model.news.alerts->alerts) {
    const bool severe = alert.level >= AlertLevel::error;
    const std::string text =
        fmt::format("{} {}{}  ", severe ? "!" : "*",
                    alert.gpu && alert.gpu->index ? fmt::format("GPU {} ", *alert.gpu->index) : "",
                    alert.message);
    column = grid.put(column, rows - 2, text, {severe ? Tone::bad : Tone::warning});
  }
}

constexpr std::array kHelp = {
    std::string_view("gpuyard top"),
    std::string_view(""),
    std::string_view("j k, arrows     move            g G      first, last"),
    std::string_view("Enter           one GPU         Esc      back to all"),
    std::string_view("1 2 3 4, Tab    overview, processes, queue, alerts"),
    std::string_view("d               a line for each GPU, or a column"),
    std::string_view("PgUp PgDn       scroll the processes"),
    std::string_view("? F1            this            q F10    quit"),
    std::string_view(""),
    std::string_view(
        "WHY is what holds a GPU back by its last minute; \"probably\" and \"not known\""),
    std::string_view("mean what they say. A squatter uses a GPU without a lease of it."),
};

void draw_help(Grid& grid) {
  for (std::size_t i = 0; i < kHelp.size(); ++i) {
    grid.put(2, i + 2, kHelp.at(i), {i == 0 ? Tone::strong : Tone::plain});
  }
}

void draw_overview(Grid& grid, Rows rows, const Model& model, Charset charset) {
  rows.first = draw_gpus(grid, rows, model, charset);
  rows.first = draw_reason(grid, rows, model);
  draw_processes(grid, rows, model, model.scrolled);
}

}  // namespace

const Lease* lease_of(const Model& model, const Device& device) {
  if (!model.news.leases) return nullptr;
  for (const Lease& lease : model.news.leases->leases) {
    for (const protocol::LeasedGpu& gpu : lease.gpus) {
      if (gpu.uuid == device.uuid) return &lease;
    }
  }
  return nullptr;
}

Tone tone_of(const Device& device) {
  if (!device.bottleneck) return health_tone(device);
  using enum BottleneckCause;
  switch (device.bottleneck->cause) {
    case lost:
    case stale:
      return Tone::bad;
    case none:
    case not_known:
      return Tone::plain;
    default:
      return Tone::warning;
  }
}

Grid render(const Model& model, Size size, Charset charset) {
  Grid grid(size);
  if (size.columns == 0 || size.rows == 0) return grid;
  draw_header(grid, model);
  const bool ticker = model.news.alerts && !model.news.alerts->alerts.empty();
  const std::size_t below = ticker ? 2 : 1;
  const Rows rows{1, size.rows > below ? size.rows - below : 0};
  switch (model.pane) {
    case Pane::overview:
      draw_overview(grid, rows, model, charset);
      break;
    case Pane::gpu:
      draw_gpu_page(grid, rows, model, charset);
      break;
    case Pane::processes:
      draw_processes(grid, rows, model, model.scrolled);
      break;
    case Pane::queue:
      draw_queue(grid, rows, model);
      break;
    case Pane::alerts:
      draw_alerts(grid, rows, model);
      break;
    case Pane::help:
      draw_help(grid);
      break;
  }
  draw_ticker(grid, model);
  draw_footer(grid, model);
  return grid;
}

}  // namespace gpuyard::cli::top
