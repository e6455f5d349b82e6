#include "cli/device_page.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "cli/fitted_table.h"
#include "cli/process_name.h"
#include "cli/reading_text.h"
#include "cli/text_width.h"

namespace gpuyard::cli {
namespace {

using enum Metric;

constexpr std::array kIdentity = {brand,           architecture,      compute_capability,
                                  serial,          board_part_number, vbios_version,
                                  inforom_version, numa_node};
constexpr std::array kUtilization = {utilization_gpu, utilization_memory, utilization_encoder,
                                     utilization_decoder};
constexpr std::array kMemory = {memory_used, memory_free, memory_reserved, memory_total,
                                bar1_used,   bar1_free,   bar1_total};
constexpr std::array kClocks = {clock_sm,
                                clock_sm_max,
                                clock_graphics,
                                clock_graphics_max,
                                clock_memory,
                                clock_memory_max,
                                clock_video,
                                clock_video_max,
                                performance_state,
                                throttle_reasons,
                                throttle_time_sw_thermal,
                                throttle_time_hw_thermal,
                                throttle_time_power_brake};
constexpr std::array kPower = {power_draw,      power_draw_average, power_draw_instant,
                               power_limit,     power_limit_set,    power_limit_default,
                               power_limit_min, power_limit_max,    energy_total};
constexpr std::array kTemperatures = {temperature_core,
                                      temperature_core_max,
                                      temperature_slowdown,
                                      temperature_shutdown,
                                      temperature_memory,
                                      temperature_memory_max,
                                      fan_speed};
constexpr std::array kPcie = {
    pcie_generation, pcie_generation_max, pcie_width, pcie_width_max, pcie_tx,
    pcie_rx,         pcie_replays};
constexpr std::array kNvlink = {nvlink_active, nvlink_tx, nvlink_rx};
constexpr std::array kEcc = {ecc_mode,
                             ecc_mode_pending,
                             ecc_corrected_volatile,
                             ecc_corrected_volatile_at,
                             ecc_uncorrected_volatile,
                             ecc_uncorrected_volatile_at,
                             ecc_corrected_aggregate,
                             ecc_corrected_aggregate_at,
                             ecc_uncorrected_aggregate,
                             ecc_uncorrected_aggregate_at,
                             rows_remapped_corrected,
                             rows_remapped_uncorrected,
                             row_remap_pending,
                             row_remap_failure,
                             retired_pages_single_bit,
                             retired_pages_double_bit,
                             retired_pages_pending};
constexpr std::array kModes = {persistence_mode, compute_mode, mig_mode, mig_mode_pending};
constexpr std::array kGpm = {gpm_graphics, gpm_sm,   gpm_occupancy, gpm_tensor,
                             gpm_dram,     gpm_fp64, gpm_fp32,      gpm_fp16};
constexpr std::array kProcesses = {processes_compute, processes_graphics};

constexpr std::array kGroups = {
    Group{"Identity", "", kIdentity},    Group{"Utilisation", "utilization_", kUtilization},
    Group{"Memory", "memory_", kMemory}, Group{"Clocks", "clock_", kClocks},
    Group{"Power", "power_", kPower},    Group{"Temperatures", "temperature_", kTemperatures},
    Group{"PCIe", "pcie_", kPcie},       Group{"NVLink", "nvlink_", kNvlink},
    Group{"ECC", "ecc_", kEcc},          Group{"Modes", "", kModes},
    Group{"GPM", "gpm_", kGpm},          Group{"Processes", "processes_", kProcesses},
};

constexpr std::size_t kIndent = 2;

std::string label_of(const Group& group, const Row& row) {
  std::string_view key = row.key;
  if (key.starts_with(group.prefix)) key.remove_prefix(group.prefix.size());
  std::string label(key);
  std::ranges::replace(label, '_', ' ');
  if (label.ends_with(" at")) label.replace(label.size() - 3, 3, " by place");
  return label;
}

bool is_missing(std::span<const Reading> readings) {
  return std::ranges::all_of(readings, [](const Reading& r) { return r.missing() != nullptr; });
}

struct Line {
  std::string label;
  std::string value;
  Tone tone = Tone::plain;
};

Tone tone_of(const Row& row, std::span<const Reading> readings) {
  const std::int64_t* number = readings.front().number();
  if (number == nullptr) return Tone::plain;
  if (row.metric == temperature_core) return temperature_tone(*number);
  if (row.metric == throttle_reasons) return throttle_tone(*number);
  const bool errors = row.metric == ecc_uncorrected_aggregate ||
                      row.metric == ecc_uncorrected_volatile || row.metric == row_remap_failure;
  return errors && *number > 0 ? Tone::bad : Tone::plain;
}

std::vector<Line> lines_of(const Group& group, const protocol::Device& device,
                           const Screen& screen) {
  std::vector<Line> lines;
  for (const Metric metric : group.metrics) {
    const Row& row = row_of(metric);
    const auto readings = device.readings.sample.all(metric);
    if (is_missing(readings)) continue;
    lines.push_back(
        {label_of(group, row), row_text(row, readings, screen), tone_of(row, readings)});
  }
  return lines;
}

// A group as lines of one column of the page; none if the GPU reports nothing of it.
using Block = std::vector<std::string>;

// "  label            value", the value broken to fit into `width`.
void put(Block& block, const Screen& screen, const Line& line, std::size_t label_width,
         std::size_t width) {
  const std::size_t margin = kIndent + label_width + 2;
  const std::size_t room = width > margin ? width - margin : line.value.size();
  std::string start(kIndent, ' ');
  start += painted(screen, Tone::faint, line.label);
  start.append(label_width + 2 - width_of(line.label), ' ');
  for (const std::string& part : wrapped(line.value, room)) {
    block.push_back(start + painted(screen, line.tone, part));
    start.assign(margin, ' ');
  }
}

std::vector<Block> blocks_of(const protocol::Device& device, const Screen& screen,
                             std::size_t width) {
  std::vector<std::vector<Line>> lines;
  std::size_t label_width = 0;
  for (const Group& group : kGroups) {
    lines.push_back(lines_of(group, device, screen));
    for (const Line& line : lines.back()) label_width = std::max(label_width, line.label.size());
  }
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < kGroups.size(); ++i) {
    if (lines[i].empty()) continue;
    Block block{painted(screen, Tone::strong, kGroups[i].title)};
    for (const Line& line : lines[i]) put(block, screen, line, label_width, width);
    block.emplace_back();
    blocks.push_back(std::move(block));
  }
  return blocks;
}

constexpr std::size_t kTwoColumns = 110;  // of the screen

// One under the other; on a wide terminal in two columns of about the same height.
std::string groups_text(const protocol::Device& device, const Screen& screen) {
  const bool two = screen.columns >= kTwoColumns;
  const std::size_t width = two ? screen.columns / 2 - 2 : screen.columns;
  const auto blocks = blocks_of(device, screen, width);
  std::size_t height = 0;
  for (const Block& block : blocks) height += block.size();
  Block left;
  Block right;
  for (const Block& block : blocks) {
    const bool fits = !two || left.size() + block.size() / 2 <= height / 2;
    Block& column = right.empty() && fits ? left : right;
    column.insert(column.end(), block.begin(), block.end());
  }
  std::string out;
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    std::string line = i < left.size() ? left[i] : "";
    if (i < right.size() && !right[i].empty()) {
      line.append(width + 2 - visible_width(line), ' ');
      line += right[i];
    }
    out += line + "\n";
  }
  return out;
}

std::string process_table(const protocol::Device& device, const Screen& screen, bool local_pids) {
  if (!device.processes || device.processes->empty()) return "";
  FittedTable table{
      {{"  PID", true}, {"KIND", false, 1}, {"MEMORY", true}, {"SM", true, 2}, {"NAME"}}};
  for (const GpuProcess& process : *device.processes) {
    const std::string sm =
        process.sm_percent ? fmt::format("{} %", *process.sm_percent) : std::string(kNothing);
    const auto name = local_pids ? process_name(process.pid) : std::nullopt;
    const std::array cells = {
        std::to_string(process.pid), std::string(enum_name(process.kind)),
        process.memory_bytes ? bytes_text(*process.memory_bytes) : std::string(kNothing), sm,
        printable(name.value_or(std::string(kNothing)))};
    for (std::size_t i = 0; i < cells.size(); ++i) table.columns[i].cells.push_back({cells[i]});
  }
  return table.text(screen);
}

std::string reason_of(const Row& row, const protocol::Device& device) {
  const auto reason = device.missing.find(json_key(row));
  return reason != device.missing.end() ? reason->second : describe({});
}

// "not reported: serial, numa node", and a line of its own for every other reason.
std::string missing_text(const protocol::Device& device, const Screen& screen) {
  std::map<std::string, std::string> names_by_reason;
  const auto add = [&](std::string_view name, const std::string& reason) {
    std::string& names = names_by_reason[is_unsupported(reason) ? "" : reason];
    names.append(names.empty() ? "" : ", ").append(name);
  };
  for (const Group& group : kGroups) {
    for (const Metric metric : group.metrics) {
      const Row& row = row_of(metric);
      if (is_missing(device.readings.sample.all(metric))) add(row.key, reason_of(row, device));
    }
  }
  std::string out;
  for (auto& [reason, names] : names_by_reason) {
    std::ranges::replace(names, '_', ' ');
    const std::string text =
        reason.empty() ? "not reported: " + names : fmt::format("not read ({}): {}", reason, names);
    const std::size_t width = screen.columns > 0 ? screen.columns : text.size();
    for (const std::string& line : wrapped(printable(text), width)) {
      out += painted(screen, reason.empty() ? Tone::faint : Tone::warning, line) + "\n";
    }
  }
  return out;
}

std::string heading(const protocol::Snapshot& snapshot, const protocol::Device& device,
                    const Screen& screen) {
  std::string out = painted(screen, Tone::strong,
                            fmt::format("GPU {}  {}", device.index, printable(device.name)));
  out += fmt::format("\n{}  {}\n", device.pci_address.empty() ? kNothing : device.pci_address,
                     device.uuid.empty() ? kNothing : device.uuid);
  if (device.condition != DeviceCondition::responsive) {
    out += painted(screen, Tone::bad,
                   fmt::format("{}: {}", enum_name(device.condition),
                               printable(device.why.value_or("the reason is not known")))) +
           "\n";
  }
  if (snapshot.simulated) out += painted(screen, Tone::faint, "This GPU is simulated.") + "\n";
  return out;
}

}  // namespace

std::span<const Group> groups() {
  return kGroups;
}

std::string device_page(const protocol::Snapshot& snapshot, const protocol::Device& device,
                        const Screen& screen, bool local_pids) {
  std::string out = heading(snapshot, device, screen) + "\n" + groups_text(device, screen);
  const std::string processes = process_table(device, screen, local_pids);
  if (!processes.empty()) out += processes + "\n";
  return out + missing_text(device, screen);
}

}  // namespace gpuyard::cli
