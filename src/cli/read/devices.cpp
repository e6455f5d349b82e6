// gpuyard devices
#include "cli/read/devices.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "cli/read/device_page.h"
#include "cli/read/source_access.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/output.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "gpu/device/catalog.h"
#include "gpu/device/error.h"
#include "gpu/device/fitness.h"

namespace gpuyard::cli {
namespace {

// A missing driver is an answer too: scripts get valid JSON with an empty list, and exit code 5.
int print_no_devices(const DevicesVerb& verb, const Error& error) {
  if (verb.json) {
    protocol::Snapshot empty;
    empty.taken_at = to_rfc3339(wall_now());
    empty.driver_error = init_failure_reason(error);
    print(json_line(empty));
  }
  return print_source_error(error);
}

// Whether some readings are not ready: the driver measures them between two reads.
bool needs_second_read(const protocol::Snapshot& snapshot) {
  return std::ranges::any_of(snapshot.devices, [](const protocol::Device& device) {
    const auto reason = device.missing.find(json_key(row_of(Metric::gpm_sm)));
    return reason != device.missing.end() && reason->second.reason == MissingReason::not_ready;
  });
}

// Reads everything, for one GPU in full.
Result<protocol::Snapshot> read_closely(Source& source) {
  auto snapshot = source.snapshot(ProbeSet::all(), OwnerLookup::looked_up);
  if (!snapshot || !needs_second_read(*snapshot)) return snapshot;
  constexpr auto kReadDelay = std::chrono::milliseconds(110);  // the counters need at least 100
  std::this_thread::sleep_for(kReadDelay);
  return source.snapshot(ProbeSet::all(), OwnerLookup::looked_up);
}

Result<protocol::Snapshot> read_devices(const DevicesVerb& verb, Source& source) {
  if (verb.json) return source.snapshot(ProbeSet::all(), OwnerLookup::looked_up);
  return verb.gpus.empty() ? source.snapshot(kTableProbes, OwnerLookup::not_needed)
                           : read_closely(source);
}

Printable text_of(const DevicesVerb& verb, const protocol::Snapshot& snapshot) {
  const Screen screen = Screen::of_stdout(verb.color);
  if (verb.gpus.empty()) return device_table(snapshot, screen);
  Printable text;
  for (const protocol::Device& device : snapshot.devices) {
    if (!text.empty()) text += "\n";
    text += device_page(snapshot, device, screen);
  }
  return text;
}

using protocol::Device;

constexpr double kMilli = 1000;
constexpr double kGibibyte = 1024.0 * 1024 * 1024;
constexpr std::size_t kBarWidth = 10;

// The order in which columns are dropped where there is little room; names go last.
struct DeviceColumn {
  enum Drops : int {
    never,
    names,
    bottlenecks,
    power_draw,
    processes,
    throttling,
    sm_clock,
    bars,
    pci_addresses,
    uuids
  };
};

const Cell kMissingCell{std::string(kNothing), Tone::faint};

Cell number_cell(const Device& device, Metric metric, const Screen& screen) {
  const Reading* reading = device.readings.find(metric);
  if (reading == nullptr || reading->missing() != nullptr) return kMissingCell;
  return {value_text(row_of(metric), *reading, screen)};
}

Cell utilization_cell(const Device& device, const Screen& screen) {
  Cell cell = number_cell(device, Metric::utilization_gpu, screen);
  const auto* percent = device.readings.number(Metric::utilization_gpu);
  if (percent && screen.terminal) {
    cell.bar = bar(screen, Tone::good, static_cast<double>(*percent) / 100, kBarWidth);
  }
  return cell;
}

Cell memory_cell(const Device& device, const Screen& screen) {
  const auto* used = device.readings.number(Metric::memory_used);
  const auto* total = device.readings.number(Metric::memory_total);
  if (!used || !total) return kMissingCell;
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
  if (const auto* celsius = device.readings.number(Metric::temperature_core)) {
    cell.tone = temperature_tone(*celsius);
  }
  return cell;
}

Cell power_cell(const Device& device) {
  const auto* draw = device.readings.number(Metric::power_draw);
  const auto* limit = device.readings.number(Metric::power_limit);
  if (!draw) return kMissingCell;
  const double watts = static_cast<double>(*draw) / kMilli;
  if (!limit) return {fmt::format("{:.0f} W", watts)};
  return {fmt::format("{:.0f}/{:.0f} W", watts, static_cast<double>(*limit) / kMilli)};
}

Cell throttle_cell(const Device& device) {
  const auto* reasons = device.readings.number(Metric::throttle_reasons);
  if (!reasons) return kMissingCell;
  return {throttle_text(*reasons), throttle_tone(*reasons)};
}

Cell processes_cell(const Device& device) {
  if (!device.processes) return kMissingCell;
  return {std::to_string(device.processes->size()),
          device.processes->empty() ? Tone::faint : Tone::plain};
}

Cell text_cell(const std::string& text, Tone tone = Tone::plain) {
  return text.empty() ? kMissingCell : Cell{text, tone};
}

Cell bottleneck_cell(const Device& device) {
  if (!device.bottleneck) return kMissingCell;
  using enum BottleneckCause;
  const BottleneckCause cause = device.bottleneck->cause;
  const Tone tone = cause == none || cause == not_known ? Tone::faint
                    : cause == lost || cause == stale   ? Tone::bad
                                                        : Tone::warning;
  return {device.bottleneck->brief, tone};
}

// Counts over the GPU's life, or since the driver was loaded if the GPU does not count longer.
std::optional<std::int64_t> uncorrected_errors(const Device& device) {
  const auto aggregate = protocol::number_of(device.readings, Metric::ecc_uncorrected_aggregate);
  if (aggregate) return aggregate;
  return protocol::number_of(device.readings, Metric::ecc_uncorrected_volatile);
}

// Adds the column only if there is an error.
void add_errors(FittedTable& table, const protocol::Snapshot& snapshot) {
  Column column{"UNCORRECTED", true};
  bool any = false;
  for (const Device& device : snapshot.devices) {
    const auto errors = uncorrected_errors(device);
    any = any || errors.value_or(0) > 0;
    column.cells.push_back(
        errors ? Cell{std::to_string(*errors), *errors > 0 ? Tone::bad : Tone::faint}
               : kMissingCell);
  }
  if (any) table.columns.push_back(std::move(column));
}

template <class MakeCell>
void add(FittedTable& table, const protocol::Snapshot& snapshot, Column column, MakeCell make) {
  for (const Device& device : snapshot.devices) column.cells.push_back(make(device));
  table.columns.push_back(std::move(column));
}

}  // namespace

Options add_devices(Options program, DevicesVerb& verb) {
  const Options devices = program.verb("devices", "List GPUs, or show one in detail");
  devices.explain(
      "Without GPUs, prints a table of all GPUs; with GPUs, prints all readings of each.");
  add_source(devices, verb.source);
  add_gpus(devices, verb.gpus, "Show these GPUs in detail: indexes, UUIDs or PCI addresses");
  add_json(devices, verb.json);
  add_color(devices, verb.color);
  devices.example("gpuyard devices")
      .example("gpuyard devices 0", "Show GPU 0 in detail")
      .example("gpuyard devices --simulate 8", "Try it without a GPU");
  return devices;
}

int run(const DevicesVerb& verb) {
  auto open = open_source(verb.source);
  if (!open) return print_no_devices(verb, open.error());
  auto snapshot = read_devices(verb, *open->source);
  if (!snapshot) return print_no_devices(verb, snapshot.error());
  if (!verb.gpus.empty() && snapshot->driver_initialised) {
    const auto kept = keep_only(*snapshot, verb.gpus, source_words(verb.source));
    if (!kept) return print_error(kept.error());
  }
  if (verb.json) print(json_line(*snapshot));
  if (!snapshot->driver_initialised) return print_source_error(no_driver_error(*snapshot));
  if (snapshot->devices.empty()) {
    return print_error(
        {Errc::unavailable, "the driver is loaded but reports no GPUs", "", "gpuyard doctor"});
  }
  if (!verb.json) print(text_of(verb, *snapshot));
  return 0;
}

const ProbeSet kTableProbes = {Probe::memory,     Probe::utilization,      Probe::temperature,
                               Probe::power,      Probe::power_limit,      Probe::clocks,
                               Probe::ecc_totals, Probe::throttle_reasons, Probe::processes};

Printable device_notes(const protocol::Snapshot& snapshot, const Screen& screen) {
  Printable out;
  for (const Device& device : snapshot.devices) {
    const std::string text = health_text(device);
    if (text.empty()) continue;
    out += paragraph(screen, health_tone(device), fmt::format("GPU {} is {}", device.index, text));
  }
  for (const Device& device : snapshot.devices) {
    if (device.condition != DeviceCondition::responsive) continue;
    const std::string unknown = failed_readings(protocol::state_of(device));
    if (unknown.empty()) continue;
    out += paragraph(screen, Tone::warning, fmt::format("GPU {}: {}", device.index, unknown));
  }
  for (const Device& device : snapshot.devices) {
    const auto& found = device.bottleneck;
    const bool said = device.condition != DeviceCondition::responsive;  // by its health
    if (!found || found->advice.empty() || said) continue;
    out += paragraph(screen, Tone::plain,
                     fmt::format("GPU {} {}. {}", device.index, found->text, found->advice));
  }
  if (snapshot.simulated) out += paragraph(screen, Tone::faint, "These GPUs are simulated.");
  return out;
}

Printable device_table(const protocol::Snapshot& snapshot, const Screen& screen) {
  FittedTable table;
  const auto number = [&](Metric metric) {
    return [&screen, metric](const Device& device) { return number_cell(device, metric, screen); };
  };
  add(table, snapshot, {"GPU", true},
      [](const Device& device) { return Cell{std::to_string(device.index), health_tone(device)}; });
  add(table, snapshot, {"NAME", false, DeviceColumn::names},
      [](const Device& device) { return text_cell(short_name(device.name)); });
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
  const auto judged = [](const Device& device) { return device.bottleneck.has_value(); };
  if (std::ranges::any_of(snapshot.devices, judged)) {
    add(table, snapshot, {"BOTTLENECK", false, DeviceColumn::bottlenecks}, bottleneck_cell);
  }
  add(table, snapshot, {"THROTTLED BY", false, DeviceColumn::throttling}, throttle_cell);
  add(table, snapshot, {"PCI", false, DeviceColumn::pci_addresses},
      [](const Device& device) { return text_cell(device.pci_address, Tone::faint); });
  add(table, snapshot, {"UUID", false, DeviceColumn::uuids},
      [](const Device& device) { return text_cell(device.uuid, Tone::faint); });
  return table.text(screen) + device_notes(snapshot, screen);
}

}  // namespace gpuyard::cli
