#include "cli/device_table.h"

#include <fmt/format.h>

#include "cli/terminal.h"

namespace gpuyard::cli {
namespace {

using protocol::Device;

std::string number(const Device& device, Metric metric, std::string_view unit) {
  const auto value = device.readings.get(metric);
  return value ? fmt::format("{} {}", *value, unit) : "-";
}

std::string memory(const Device& device) {
  constexpr double kGibibyte = 1024.0 * 1024 * 1024;
  const auto used = device.readings.get(Metric::memory_used);
  const auto total = device.readings.get(Metric::memory_total);
  if (!used || !total) return "-";
  return fmt::format("{:.1f} / {:.1f} GiB", static_cast<double>(*used) / kGibibyte,
                     static_cast<double>(*total) / kGibibyte);
}

std::string power(const Device& device) {
  const auto draw = device.readings.get(Metric::power_draw);
  const auto limit = device.readings.get(Metric::power_limit);
  if (!draw) return "-";
  const double watts = static_cast<double>(*draw) / 1000;
  if (!limit) return fmt::format("{:.0f} W", watts);
  return fmt::format("{:.0f} / {:.0f} W", watts, static_cast<double>(*limit) / 1000);
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

}  // namespace

std::string device_table(const protocol::Snapshot& snapshot) {
  Table table;
  table.headings = {"GPU", "NAME", "UTIL", "MEMORY", "TEMP", "POWER", "SM CLOCK", "PCI", "UUID"};
  table.right = {true, false, true, true, true, true, true, false, false};
  std::string notes;
  for (const Device& device : snapshot.devices) {
    table.rows.push_back({std::to_string(device.index), or_dash(device.name),
                          number(device, Metric::utilization_gpu, "%"), memory(device),
                          number(device, Metric::temperature_core, "C"), power(device),
                          number(device, Metric::clock_sm, "MHz"), or_dash(device.pci_address),
                          or_dash(device.uuid)});
    if (device.why) notes += fmt::format("GPU {}: {}\n", device.index, *device.why);
  }
  std::string text = table.text() + notes;
  if (snapshot.simulated) text += "These GPUs are simulated.\n";
  return text;
}

}  // namespace gpuyard::cli
