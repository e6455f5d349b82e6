#include "cli/read/device_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/text_width.h"
#include "device/catalog.h"

namespace gpuyard::cli {

const ProbeSet kTableProbes = {Probe::memory,     Probe::utilization,      Probe::temperature,
                               Probe::power,      Probe::power_limit,      Probe::clocks,
                               Probe::ecc_totals, Probe::throttle_reasons, Probe::processes};

namespace {

using protocol::Device;

constexpr double kMilli = 1000;
constexpr double kGibibyte = 1024.0 * 1024 * 1024;
constexpr std::size_t kBarWidth = 10;

// What goes first where there is little room; the names of the GPUs are the last to go.
struct DeviceColumn {
  enum Drops : int {
    never,
    names,
    power_draw,
    processes,
    throttling,
    sm_clock,
    bars,
    pci_addresses,
    uuids
  };
};

const Cell kMissing{std::string(kNothing), Tone::faint};

Cell number_cell(const Device& device, Metric metric, const Screen& screen) {
  const Reading* reading = device.readings.sample.find(metric);
  if (reading == nullptr || reading->missing() != nullptr) return kMissing;
  return {value_text(row_of(metric), *reading, screen)};
}

Cell utilization_cell(const Device& device, const Screen& screen) {
  Cell cell = number_cell(device, Metric::utilization_gpu, screen);
  const auto percent = device.readings.get(Metric::utilization_gpu);
  if (percent && screen.terminal) {
    cell.bar = bar(screen, Tone::good, static_cast<double>(*percent) / 100, kBarWidth);
  }
  return cell;
}

Cell memory_cell(const Device& device, const Screen& screen) {
  const auto used = device.readings.get(Metric::memory_used);
  const auto total = device.readings.get(Metric::memory_total);
  if (!used || !total) return kMissing;
  Cell cell{fmt::format("{:.1f}/{:.1f} GiB", static_cast<double>(*used) / kGibibyte,
                        static_cast<double>(*total) / kGibibyte)};
  constexpr double kNearlyFull = 0.9;
  const double share = *total > 0 ? static_cast<double>(*used) / static_cast<double>(*total) : 0;
  const bool full = share >= kNearlyFull;
  if (full) cell.tone = Tone::warning;
  if (screen.terminal) cell.bar = bar(screen, full ? Tone::warning : Tone::busy, share, kBarWidth);
  return cell;
}

Cell temperature_cell(const Device& device, const Screen& screen) {
  Cell cell = number_cell(device, Metric::temperature_core, screen);
  if (const auto celsius = device.readings.get(Metric::temperature_core)) {
    cell.tone = temperature_tone(*celsius);
  }
  return cell;
}

Cell power_cell(const Device& device) {
  const auto draw = device.readings.get(Metric::power_draw);
  const auto limit = device.readings.get(Metric::power_limit);
  if (!draw) return kMissing;
  const double watts = static_cast<double>(*draw) / kMilli;
  if (!limit) return {fmt::format("{:.0f} W", watts)};
  return {fmt::format("{:.0f}/{:.0f} W", watts, static_cast<double>(*limit) / kMilli)};
}

Cell throttle_cell(const Device& device) {
  const auto reasons = device.readings.get(Metric::throttle_reasons);
  if (!reasons) return kMissing;
  return {throttle_text(*reasons), throttle_tone(*reasons)};
}

Cell processes_cell(const Device& device) {
  if (!device.processes) return kMissing;
  return {std::to_string(device.processes->size()),
          device.processes->empty() ? Tone::faint : Tone::plain};
}

Cell text_cell(const std::string& text, Tone tone = Tone::plain) {
  return text.empty() ? kMissing : Cell{printable(text), tone};
}

// Over the life of the GPU; since the driver was loaded, where it does not count longer.
std::optional<std::int64_t> uncorrected_errors(const Device& device) {
  const auto aggregate = device.readings.get(Metric::ecc_uncorrected_aggregate);
  return aggregate ? aggregate : device.readings.get(Metric::ecc_uncorrected_volatile);
}

// Only worth a column where there is one.
void add_errors(FittedTable& table, const protocol::Snapshot& snapshot) {
  Column column{"UNCORRECTED", true};
  bool any = false;
  for (const Device& device : snapshot.devices) {
    const auto errors = uncorrected_errors(device);
    any = any || errors.value_or(0) > 0;
    column.cells.push_back(
        errors ? Cell{std::to_string(*errors), *errors > 0 ? Tone::bad : Tone::faint} : kMissing);
  }
  if (any) table.columns.push_back(std::move(column));
}

template <class MakeCell>
void add(FittedTable& table, const protocol::Snapshot& snapshot, Column column, MakeCell make) {
  for (const Device& device : snapshot.devices) column.cells.push_back(make(device));
  table.columns.push_back(std::move(column));
}

void add_identity(FittedTable& table, const protocol::Snapshot& snapshot) {
  add(table, snapshot, {"GPU", true},
      [](const Device& device) { return Cell{std::to_string(device.index), health_tone(device)}; });
  add(table, snapshot, {"NAME", false, DeviceColumn::names},
      [](const Device& device) { return text_cell(short_name(device.name)); });
}

}  // namespace

std::string device_notes(const protocol::Snapshot& snapshot, const Screen& screen) {
  std::string out;
  const auto add = [&](Tone tone, const std::string& text) {
    const std::size_t width = screen.columns > 0 ? screen.columns : text.size();
    for (const std::string& line : wrapped(text, width)) out += painted(screen, tone, line) + "\n";
  };
  for (const Device& device : snapshot.devices) {
    const std::string text = health_text(device);
    if (!text.empty()) add(health_tone(device), fmt::format("GPU {} is {}", device.index, text));
  }
  if (snapshot.simulated) add(Tone::faint, "These GPUs are simulated.");
  return out;
}

std::string device_table(const protocol::Snapshot& snapshot, const Screen& screen) {
  FittedTable table;
  const auto number = [&](Metric metric) {
    return [&screen, metric](const Device& device) { return number_cell(device, metric, screen); };
  };
  add_identity(table, snapshot);
  add(table, snapshot, {"UTIL", true, DeviceColumn::never, DeviceColumn::bars},
      [&](const Device& device) { return utilization_cell(device, screen); });
  add(table, snapshot, {"MEMORY", true, DeviceColumn::never, DeviceColumn::bars},
      [&](const Device& device) { return memory_cell(device, screen); });
  add(table, snapshot, {"TEMP", true},
      [&](const Device& device) { return temperature_cell(device, screen); });
  add(table, snapshot, {"POWER", true, DeviceColumn::power_draw}, power_cell);
  add(table, snapshot, {"SM CLOCK", true, DeviceColumn::sm_clock}, number(Metric::clock_sm));
  add_errors(table, snapshot);
  add(table, snapshot, {"PROCS", true, DeviceColumn::processes}, processes_cell);
  add(table, snapshot, {"THROTTLED BY", false, DeviceColumn::throttling}, throttle_cell);
  add(table, snapshot, {"PCI", false, DeviceColumn::pci_addresses},
      [](const Device& device) { return text_cell(device.pci_address, Tone::faint); });
  add(table, snapshot, {"UUID", false, DeviceColumn::uuids},
      [](const Device& device) { return text_cell(device.uuid, Tone::faint); });
  return table.text(screen) + device_notes(snapshot, screen);
}

}  // namespace gpuyard::cli
