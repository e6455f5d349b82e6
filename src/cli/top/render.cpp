#include "cli/top/render.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/local_time.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"
#include "gpu/device/catalog.h"

namespace gpuyard::cli::top {
namespace {

using protocol::Device;

constexpr double kKilowatt = 1e6;  // milliwatts

// "2.16kW"; with a + where some GPU's is not known: at least that.
std::string kilowatts_of_all(const Model& model, Metric metric) {
  std::int64_t sum = 0;
  bool all = true;
  bool some = false;
  for (const Device& device : model.data.snapshot.devices) {
    const auto milliwatts = protocol::number_of(device.readings, metric);
    all = all && milliwatts;
    some = some || milliwatts;
    sum += milliwatts.value_or(0);
  }
  if (!some) return "-";
  return fmt::format("{:.2f}{}", static_cast<double>(sum) / kKilowatt, all ? "" : "+");
}

std::string power_of_all(const Model& model) {
  const std::string draw = kilowatts_of_all(model, Metric::power_draw);
  const std::string limit = kilowatts_of_all(model, Metric::power_limit);
  return draw == "-" && limit == "-" ? "power unknown" : fmt::format("{}/{}kW", draw, limit);
}

std::string leases_of_all(const Model& model) {
  const auto& devices = model.data.snapshot.devices;
  if (!model.data.leases) return "";
  const auto leased = std::ranges::count_if(
      devices, [&](const Device& device) { return lease_of(model, device) != nullptr; });
  std::string text = fmt::format("  leased {}/{}", leased, devices.size());
  if (model.data.queue) text += fmt::format(" queue {}", model.data.queue->pending_claimers);
  return text;
}

std::string alerts_of_all(const Model& model) {
  if (!model.data.alerts) return "";
  const auto& alerts = model.data.alerts->alerts;
  const auto severe = std::ranges::count_if(
      alerts, [](const protocol::Alert& alert) { return alert.level >= AlertLevel::error; });
  return fmt::format("  !{} *{}", severe, static_cast<std::ptrdiff_t>(alerts.size()) - severe);
}

// "PAST 11:58:40, 28m ago, means of 10 s"
std::string past_text(const Model& model) {
  const WallTime at = shown_moment(model);
  constexpr std::size_t kDate = std::string_view("2026-01-31 ").size();
  const std::string clock = local_time(at, TimeDetail::second).substr(kDate);
  if (model.is_replay) return fmt::format("REPLAY {}", clock);
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(model.now - at);
  std::string text = fmt::format("PAST {}, {} ago", clock, short_duration(age.count()));
  if (!model.data.snapshot.past) return text;
  switch (model.data.snapshot.past->resolution) {
    case protocol::PastResolution::nothing:
      return text + ", no data";
    case protocol::PastResolution::reading:
      return text;
    case protocol::PastResolution::ten_seconds:
      return text + ", 10 s means";
    case protocol::PastResolution::minute:
      return text + ", 1 min means";
  }
  return text;
}

std::string state_of(const Model& model) {
  if (!model.failure.empty()) {
    const auto age =
        std::chrono::duration_cast<std::chrono::seconds>(model.now - model.data.fetched_at);
    return "STALE " + short_duration(age.count());
  }
  if (model.data.at) return past_text(model);
  const std::string filter = model.filter_text.empty() ? "" : "FILTER ";
  return filter + (model.data.snapshot.simulated ? "SIMULATED" : "LIVE");
}

void draw_header(Grid& grid, const Model& model) {
  std::vector<std::string> names;
  for (const Device& device : model.data.snapshot.devices) names.push_back(device.name);
  const std::string today = model.data.today.empty() ? "" : "  " + model.data.today;
  const auto with = [&](const std::string& gpus) {
    return fmt::format(" {} {}  {}{}{}{}", model.host, gpus, power_of_all(model),
                       leases_of_all(model), alerts_of_all(model), today);
  };
  const std::string state = state_of(model);
  const std::size_t width = grid.size().columns;
  const std::size_t room = width > state.size() + 3 ? width - state.size() - 3 : 0;
  std::string text = with(models_text(names));
  if (width_of(text) > room) text = with(gpus_text(names.size()));
  // Then without its last parts: a number that is cut would be another.
  while (width_of(text) > room && text.find("  ") != text.npos) text.resize(text.rfind("  "));
  grid.put(0, 0, text, {Tone::strong}, room);
  const Tone tone = !model.failure.empty() ? Tone::bad : model.data.at ? Tone::warning : Tone::good;
  grid.put_right(width > 0 ? width - 1 : 0, 0, state, {tone, model.data.at.has_value()});
}

// The newest alert or, without one, nothing.
void draw_ticker(Grid& grid, const Model& model, Charset charset) {
  const std::size_t rows = grid.size().rows;
  if (rows < 3 || !model.data.alerts || model.data.alerts->alerts.empty()) return;
  std::size_t column = 1;
  for (const protocol::Alert& alert : model.data.alerts->alerts) {
    const bool severe = alert.level >= AlertLevel::error;
    const std::string gpu =
        alert.device && alert.device->index ? fmt::format("GPU {}", *alert.device->index) : "";
    const bool named = gpu.empty() || alert.message == gpu ||
                       alert.message.starts_with(gpu + " ") || alert.message.starts_with(gpu + ":");
    const std::string text = printable(
        fmt::format("{} {}{}", severe ? "!" : "*", named ? "" : gpu + " ", alert.message));
    const std::size_t room = grid.size().columns - std::min(column, grid.size().columns);
    column = grid.put(column, rows - 2, truncate_text(text, room, charset != Charset::ascii),
                      {severe ? Tone::bad : Tone::warning}) +
             2;
  }
}

void draw_overview(Grid& grid, RowRange rows, const Model& model, Charset charset) {
  rows.first = draw_gpus(grid, rows, model, charset);
  rows.first = draw_reason(grid, rows, model);
  draw_processes(grid, rows, model);
}

// A sentence for one GPU.
std::string plain_line(const Model& model, const Device& device) {
  const auto reading = [&](Metric metric, std::string_view unit, double part, int decimals = 0) {
    const auto* value = device.readings.number(metric);
    return value ? fmt::format("{:.{}f} {}", static_cast<double>(*value) / part, decimals, unit)
                 : std::string("unknown");
  };
  const std::string why = reason_of(device);
  const std::string who = holder_of(model, device);
  return fmt::format("GPU {}: utilisation {}, power {}, temperature {}, memory {}, {}{}",
                     device.index, reading(Metric::utilization_gpu, "%", 1),
                     reading(Metric::power_draw, "W", 1000),
                     reading(Metric::temperature_core, "C", 1),
                     reading(Metric::memory_used, "GiB", 1024.0 * 1024 * 1024, 1),
                     who == "-" ? "no user" : who, why.empty() || why == "-" ? "" : ", " + why);
}

}  // namespace

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
  const bool ticker = model.data.alerts && !model.data.alerts->alerts.empty();
  const std::size_t below = ticker ? 2 : 1;
  RowRange rows{1, size.rows > below ? size.rows - below : 0};
  if (model.query.at && !model.is_replay && rows.count() > 4) draw_time(grid, rows.first++, model);
  switch (model.pane) {
    case Pane::overview:
      draw_overview(grid, rows, model, charset);
      break;
    case Pane::gpu:
      draw_gpu_page(grid, rows, model, charset);
      break;
    case Pane::processes:
      draw_processes(grid, rows, model);
      break;
    case Pane::queue:
    case Pane::alerts:
    case Pane::usage:
      draw_list(grid, rows, model);
      break;
    case Pane::help:
      draw_help(grid, rows, model);
      break;
  }
  draw_ticker(grid, model, charset);
  draw_footer(grid, model);
  if (model.dialog)
    draw_dialog(grid, *model.dialog, shell_line(model.dialog->action, model.remote_daemon));
  return grid;
}

std::vector<std::string> plain_lines(const Model& model) {
  if (!model.failure.empty()) return {model.failure};  // what was fetched before is old
  std::vector<std::string> lines;
  for (const Device* const device : gpus_of(model)) lines.push_back(plain_line(model, *device));
  if (!model.data.alerts) return lines;
  for (const protocol::Alert& alert : model.data.alerts->alerts) {
    lines.push_back(
        fmt::format("alert {}, {}: {}", alert.number, enum_name(alert.level), alert.message));
  }
  return lines;
}

}  // namespace gpuyard::cli::top
