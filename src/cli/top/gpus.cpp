// The GPUs: a line each, or, where there is no room for that, a column each.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/saturated.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/fitted_table.h"
#include "cli/top/render.h"
#include "gpu/device/catalog.h"

namespace gpuyard::cli::top {
namespace {

using protocol::Device;

constexpr double kGibibyte = 1024.0 * 1024 * 1024;
constexpr std::int64_t kWatt = 1000;  // milliwatts
constexpr std::size_t kMinProcesses = 8;

std::optional<double> share_of(const Device& device, Metric part, Metric whole) {
  const auto* some = device.readings.number(part);
  const auto* all = device.readings.number(whole);
  if (!some || !all || *all <= 0) return std::nullopt;
  return static_cast<double>(*some) / static_cast<double>(*all);
}

std::optional<double> use_of(const Device& device) {
  const auto* use = device.readings.number(Metric::utilization_gpu);
  return use ? std::optional(static_cast<double>(*use) / 100) : std::nullopt;
}

bool is_responsive(const Device& device) {
  return device.condition == DeviceCondition::responsive;
}

std::string hold_time_text(const Model& model, const Device& device) {
  const protocol::Lease* const lease = lease_of(model, device);
  if (lease == nullptr || !lease->use) return "-";
  return short_duration(saturated_cast<std::int64_t>(to_seconds(lease->use->held)));
}

// Without the namespace of a pod, for which a column has no room.
std::string short_holder_of(const Model& model, const Device& device) {
  std::string holder = holder_of(model, device);
  return holder.substr(holder.find('/') + 1);  // npos + 1 is 0
}

// The first cell of each column. A wider screen gives its room to the line of the past and to why.
struct ColumnLayout {
  std::size_t use = 3;
  std::size_t past = 8;
  std::size_t past_width = 16;
  std::size_t memory = 0;
  std::size_t heat = 0;
  std::size_t power = 0;
  std::size_t who = 0;
  std::size_t since = 0;
  std::size_t why = 0;

  explicit ColumnLayout(std::size_t width) {
    constexpr std::size_t kNarrow = 80;
    constexpr std::size_t kMaxPast = 60;
    const std::size_t more = width > kNarrow ? width - kNarrow : 0;
    past_width = std::min(kMaxPast, past_width + more / 2);
    memory = past + past_width + 1;
    heat = memory + 10;
    power = heat + 2;
    who = power + 9;
    since = who + 8;
    why = since + 6;
  }
};

// A sign is a second, in braille two.
void draw_heading(Grid& grid, std::size_t row, const ColumnLayout& at, Charset charset) {
  const std::size_t seconds = at.past_width * (charset == Charset::braille ? 2 : 1);
  const Style style{Tone::faint};
  grid.put(1, row, "#", style);
  grid.put(at.use, row, fmt::format(" SM% last {} s", seconds), style);
  grid.put(at.memory, row, "   VRAM", style);
  grid.put_right(at.heat + 2, row, "C", style);
  grid.put_right(at.power + 8, row, "W/limit", style);
  grid.put(at.who, row, "user", style);
  grid.put_right(at.since + 5, row, "held", style);
  grid.put(at.why, row, "why", style);
}

std::vector<double> utilization_of(const Model& model, const Device& device) {
  const auto known = model.utilization.find(device.uuid);
  if (known == model.utilization.end()) return {};
  return {known->second.begin(), known->second.end()};
}

void draw_numbers(Grid& grid, std::size_t row, const ColumnLayout& at, const Model& model,
                  const Device& device, Charset charset) {
  if (const auto* use = device.readings.number(Metric::utilization_gpu)) {
    grid.put_right(at.use + 4, row, fmt::format("{}%", *use));
  } else {
    grid.put_right(at.use + 4, row, "-", {Tone::faint});
  }
  grid.put(at.past, row, sparkline(utilization_of(model, device), at.past_width, charset),
           {Tone::good});
  if (const auto* used = device.readings.number(Metric::memory_used)) {
    grid.put_right(at.memory + 5, row,
                   fmt::format("{:.1f}", static_cast<double>(*used) / kGibibyte));
  }
  if (const auto share = share_of(device, Metric::memory_used, Metric::memory_total)) {
    constexpr double kNearlyFull = 0.9;
    grid.put(at.memory + 6, row, meter(*share, 3, charset),
             {*share >= kNearlyFull ? Tone::warning : Tone::busy});
  }
  if (const auto* celsius = device.readings.number(Metric::temperature_core)) {
    grid.put_right(at.heat + 2, row, std::to_string(*celsius));
  }
  const auto* drawn = device.readings.number(Metric::power_draw);
  const auto* limit = device.readings.number(Metric::power_limit);
  const auto watts = [](std::int64_t milliwatts) {
    return std::to_string((milliwatts + kWatt / 2) / kWatt);
  };
  grid.put_right(at.power + 8, row,
                 fmt::format("{}/{}", drawn ? watts(*drawn) : "-", limit ? watts(*limit) : "-"));
}

void draw_line(Grid& grid, std::size_t row, const ColumnLayout& at, const Model& model,
               const Device& device, bool pointed, Charset charset) {
  const Tone tone = tone_of(device);
  grid.mark(row, 0, grid.size().columns, name_of(device));
  grid.put(0, row, pointed ? ">" : " ", {Tone::strong});
  grid.put_right(2, row, std::to_string(device.index), {tone});
  if (is_responsive(device)) {
    draw_numbers(grid, row, at, model, device, charset);
  } else {
    const bool is_lost = device.bottleneck && device.bottleneck->cause == BottleneckCause::lost;
    grid.put(at.use, row, is_lost ? "LOST" : "----", {Tone::bad});
    grid.put(at.past, row, device.why.value_or("not responding"), {Tone::bad},
             at.who - at.past - 1);
  }
  grid.put(at.who, row, short_holder_of(model, device), {}, 8);
  grid.put_right(at.since + 5, row, hold_time_text(model, device));
  grid.put(at.why, row, reason_of(device), {tone});
}

// One sign for why, "P" for the power limit.
char letter_of(const Device& device) {
  if (!is_responsive(device)) return 'X';
  if (!device.bottleneck) return '.';
  using enum BottleneckCause;
  switch (device.bottleneck->cause) {
    case lost:
    case stale:
      return 'X';
    case heat:
      return 'H';
    case power_brake:
      return 'B';
    case power_cap:
      return 'P';
    case narrow_link:
      return 'L';
    case starved:
      return 's';
    case waiting:
      return 'w';
    case leased_idle:
      return 'i';
    case memory_full:
      return 'M';
    default:
      return '.';
  }
}

using Draw = void (*)(Grid&, std::size_t column, std::size_t row, const Model&, const Device&,
                      Charset);
struct HeatRow {
  std::string_view name;
  Draw draw;
};

template <auto Share>
void draw_share(Grid& grid, std::size_t column, std::size_t row, const Model&, const Device& device,
                Charset charset) {
  const auto share = is_responsive(device) ? Share(device) : std::nullopt;
  grid.put(column, row, is_responsive(device) ? level(share.value_or(kNoValue), charset) : "X",
           {is_responsive(device) ? Tone::good : Tone::bad});
}

std::optional<double> power_share(const Device& device) {
  return share_of(device, Metric::power_draw, Metric::power_limit);
}
std::optional<double> memory_share(const Device& device) {
  return share_of(device, Metric::memory_used, Metric::memory_total);
}

// Tens of degrees.
void draw_heat(Grid& grid, std::size_t column, std::size_t row, const Model&, const Device& device,
               Charset) {
  const auto* celsius = device.readings.number(Metric::temperature_core);
  if (!is_responsive(device) || !celsius) return;
  grid.put(column, row, std::to_string(std::clamp<std::int64_t>(*celsius / 10, 0, 9)));
}

void draw_holder(Grid& grid, std::size_t column, std::size_t row, const Model& model,
                 const Device& device, Charset) {
  const std::string who = short_holder_of(model, device);
  grid.put(column, row, who == "-" ? "." : who, {}, 1);
}

void draw_why(Grid& grid, std::size_t column, std::size_t row, const Model&, const Device& device,
              Charset) {
  grid.put(column, row, std::string(1, letter_of(device)), {tone_of(device)});
}

constexpr std::array kHeatRows = {
    HeatRow{"SM%", &draw_share<&use_of>},
    HeatRow{"power", &draw_share<&power_share>},
    HeatRow{"VRAM", &draw_share<&memory_share>},
    HeatRow{"temp", &draw_heat},
    HeatRow{"user", &draw_holder},
    HeatRow{"why", &draw_why},
};
constexpr std::size_t kHeatColumn = 8;

// The GPUs from the worst: lost ones, those that something holds back, those in use.
std::vector<const Device*> sort_by_severity(std::vector<const Device*> devices) {
  const auto key = [](const Device* device) {
    const auto& found = device->bottleneck;
    return std::pair(found ? found->cause : BottleneckCause::none, device->index);
  };
  std::ranges::sort(devices, {}, key);
  return devices;
}

std::size_t draw_columns(Grid& grid, RowRange rows, const Model& model, Charset charset) {
  const auto devices = gpus_of(model);
  const std::size_t place = list_of(model).position;
  const std::size_t width = grid.size().columns;
  const std::size_t each = width > kHeatColumn + 1 ? width - kHeatColumn - 1 : 1;
  for (std::size_t from = 0; from < devices.size() && rows.count() > kHeatRows.size();
       from += each) {
    const std::size_t until = std::min(devices.size(), from + each);
    for (std::size_t i = from; i < until; ++i) {
      if (i % 10 != 0) continue;
      grid.put(kHeatColumn + i - from, rows.first, std::to_string(devices[i]->index),
               {Tone::faint});
    }
    ++rows.first;
    for (const HeatRow& one : kHeatRows) {
      grid.put(1, rows.first, one.name, {Tone::faint});
      for (std::size_t i = from; i < until; ++i) {
        const std::size_t column = kHeatColumn + i - from;
        one.draw(grid, column, rows.first, model, *devices[i], charset);
        grid.mark(rows.first, column, column + 1, name_of(*devices[i]));
      }
      if (place >= from && place < until) {
        const std::size_t column = kHeatColumn + place - from;
        grid.restyle(rows.first, column, column + 1, {Tone::strong, true});
      }
      ++rows.first;
    }
  }
  if (rows.count() < 2) return rows.first;
  grid.put(1, rows.first, "worst first", {Tone::faint});
  grid.put_right(width, rows.first,
                 "P limit  H heat  B brake  L link  w wait  s starved  i idle  X lost",
                 {Tone::faint});
  ++rows.first;
  const ColumnLayout at(width);
  constexpr std::size_t kWorst = 4;
  const std::size_t until = std::min(rows.until, rows.first + kWorst);
  for (const Device* const device : sort_by_severity(devices)) {
    if (rows.first >= until) break;
    draw_line(grid, rows.first++, at, model, *device, device == device_of(model), charset);
  }
  return rows.first;
}

}  // namespace

std::string holder_of(const Model& model, const Device& device) {
  if (const protocol::Lease* lease = lease_of(model, device)) {
    return holder_text(*lease);
  }
  if (model.data.queue) {
    for (const protocol::UnleasedProcess& one : model.data.queue->squatters) {
      if (one.uuid == device.uuid) return one.user.value_or(std::to_string(one.uid)) + "!";
    }
  }
  if (!device.processes || device.processes->empty()) return "-";
  const protocol::Process& first = device.processes->front();
  return first.user.value_or(first.uid ? std::to_string(*first.uid) : "?");
}

std::string reason_of(const Device& device) {
  if (device.bottleneck && device.bottleneck->cause != BottleneckCause::none) {
    return device.bottleneck->brief;
  }
  if (!is_responsive(device)) return device.why.value_or("not responding");
  return device.bottleneck ? "" : "-";
}

std::size_t draw_gpus(Grid& grid, RowRange rows, const Model& model, Charset charset) {
  const auto devices = gpus_of(model);
  const List& list = list_of(model);
  if (devices.empty() && !model.filter.empty()) {
    grid.put(1, rows.first, "No GPU matches the filter.", {Tone::faint});
    return rows.first + 1;
  }
  const auto shown = model.lists.find(Pane::processes);
  const std::size_t processes = shown != model.lists.end() ? shown->second.names.size() : 0;
  const std::size_t others = std::min(processes, kMinProcesses) + 3;
  const bool fits = devices.size() + 1 + others <= rows.count() || devices.size() <= 8;
  if (!model.detailed || !fits) return draw_columns(grid, rows, model, charset);
  const ColumnLayout at(grid.size().columns);
  if (rows.count() > 0) draw_heading(grid, rows.first++, at, charset);
  const std::size_t count = rows.count();
  for (std::size_t i = list.position < count ? 0 : list.position + 1 - count;
       i < devices.size() && rows.first < rows.until; ++i) {
    draw_line(grid, rows.first++, at, model, *devices[i], i == list.position, charset);
  }
  return rows.first;
}

std::size_t draw_reason(Grid& grid, RowRange rows, const Model& model) {
  const Device* const chosen = device_of(model);
  if (chosen == nullptr || !chosen->bottleneck) return rows.first;
  const Device& device = *chosen;
  const std::size_t width = grid.size().columns;
  if (width < 4 || rows.count() < 4) return rows.first;
  std::string text = fmt::format("GPU {} {}.", device.index, device.bottleneck->text);
  if (!device.bottleneck->advice.empty()) text += " " + device.bottleneck->advice;
  constexpr std::size_t kMaxLines = 3;
  const auto lines = wrap_text(text, width - 2);
  for (std::size_t i = 0; i < lines.size() && i < kMaxLines; ++i) {
    grid.put(1, rows.first++, lines[i], {tone_of(device)});
  }
  return rows.first;
}

}  // namespace gpuyard::cli::top
