#include "cli/read/device_page.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include "cli/read/processes.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"
#include "gpu/device/xid.h"

namespace gpuyard::cli {
namespace {

constexpr std::size_t kIndent = 2;

std::string label_of(const Group& group, const MetricRow& row) {
  std::string_view key = row.key;
  if (key.starts_with(group.prefix)) key.remove_prefix(group.prefix.size());
  std::string label(key);
  std::ranges::replace(label, '_', ' ');
  if (label.ends_with(" at")) label.replace(label.size() - 3, 3, " by location");
  return label;
}

bool is_missing(std::span<const Reading> readings) {
  return std::ranges::all_of(readings, [](const Reading& r) { return r.missing() != nullptr; });
}

// A row that is zero everywhere is left out: the total above it says as much.
bool is_zero_everywhere(const MetricRow& row, std::span<const Reading> readings) {
  return row.dimension == Dimension::location &&
         std::ranges::all_of(readings, [](const Reading& r) {
           return r.missing() != nullptr || (r.number() != nullptr && *r.number() == 0);
         });
}

struct Line {
  std::string label;
  std::string value;
  Tone tone = Tone::plain;
};

Tone tone_of(const MetricRow& row, std::span<const Reading> readings) {
  const std::int64_t* number = readings.front().number();
  if (number == nullptr) return Tone::plain;
  if (row.metric == Metric::temperature_core) return temperature_tone(*number);
  if (row.metric == Metric::throttle_reasons) return throttle_tone(*number);
  const bool errors = row.metric == Metric::ecc_uncorrected_aggregate ||
                      row.metric == Metric::ecc_uncorrected_volatile ||
                      row.metric == Metric::row_remap_failure ||
                      row.metric == Metric::recovery_action;
  return errors && *number > 0 ? Tone::bad : Tone::plain;
}

std::vector<Line> lines_of(const Group& group, const protocol::Device& device,
                           const Screen& screen) {
  std::vector<Line> lines;
  for (const Metric metric : group.metrics) {
    const MetricRow& row = row_of(metric);
    const auto readings = device.readings.all(metric);
    if (is_missing(readings) || is_zero_everywhere(row, readings)) continue;
    lines.push_back(
        {label_of(group, row), row_text(row, readings, screen), tone_of(row, readings)});
  }
  return lines;
}

// A group as lines in one column of the page; empty if the GPU reports nothing of it.
using Block = std::vector<Printable>;

// Adds "  label            value", the value broken to fit into `width`.
void put(Block& block, const Screen& screen, const Line& line, std::size_t label_width,
         std::size_t width) {
  const std::size_t margin = kIndent + label_width + 2;
  const std::size_t room = width > margin ? width - margin : line.value.size();
  Printable start = formatted("{:{}}{}{:{}}", "", kIndent, painted(screen, Tone::faint, line.label),
                              "", label_width + 2 - width_of(line.label));
  for (const std::string& part : wrap_text(line.value, room)) {
    block.push_back(start + painted(screen, line.tone, part));
    start = formatted("{:{}}", "", margin);
  }
}

std::vector<Block> blocks_of(const protocol::Device& device, const Screen& screen,
                             std::size_t width) {
  std::vector<std::vector<Line>> lines;
  std::size_t label_width = 0;
  for (const Group& group : groups()) {
    lines.push_back(lines_of(group, device, screen));
    for (const Line& line : lines.back()) label_width = std::max(label_width, line.label.size());
  }
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < groups().size(); ++i) {
    if (lines[i].empty()) continue;
    Block block{painted(screen, Tone::strong, groups()[i].title)};
    for (const Line& line : lines[i]) put(block, screen, line, label_width, width);
    block.emplace_back();
    blocks.push_back(std::move(block));
  }
  return blocks;
}

constexpr std::size_t kMinTwoColumnWidth = 110;  // of the screen, at least

// Puts groups one under the other; on a wide terminal in two columns of about the same height.
Printable groups_text(const protocol::Device& device, const Screen& screen) {
  const bool two = screen.columns >= kMinTwoColumnWidth;
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
  Printable out;
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    Printable line = i < left.size() ? left[i] : "";
    if (i < right.size() && !right[i].empty()) {
      line += formatted("{:{}}{}", "", width + 2 - visible_width(line), right[i]);
    }
    out += line + "\n";
  }
  return out;
}

Printable process_table(const protocol::Device& device, const Screen& screen) {
  if (!device.processes || device.processes->empty()) return "";
  FittedTable table{{{"  PID", true},
                     {"USER", false, 3},
                     {"KIND", false, 1},
                     {"MEMORY", true},
                     {"SM", true, 2},
                     {"COMMAND"}}};
  for (const protocol::Process& process : *device.processes) {
    table.add(
        {{std::to_string(process.pid)},
         {user_text(process)},
         {std::string(enum_name(process.kind))},
         {process.memory_bytes ? bytes_text(*process.memory_bytes) : std::string(kNothing)},
         {process.sm_percent ? fmt::format("{} %", *process.sm_percent) : std::string(kNothing)},
         {process.command.value_or(std::string(kNothing))}});
  }
  return table.text(screen);
}

Missing reason_of(const MetricRow& row, const protocol::Device& device) {
  const auto reason = device.missing.find(json_key(row));
  return reason != device.missing.end() ? reason->second : Missing{};
}

// "not reported: serial, numa node", and one more line for every other reason.
Printable missing_text(const protocol::Device& device, const Screen& screen) {
  std::map<std::string, std::string> names_by_reason;
  const auto add = [&](std::string_view name, const Missing& why) {
    const bool unsupported = why.reason == MissingReason::not_supported;
    std::string& names = names_by_reason[unsupported ? "" : describe(why)];
    names.append(names.empty() ? "" : ", ").append(name);
  };
  for (const Group& group : groups()) {
    for (const Metric metric : group.metrics) {
      const MetricRow& row = row_of(metric);
      if (is_missing(device.readings.all(metric))) add(row.key, reason_of(row, device));
    }
  }
  Printable out;
  for (auto& [reason, names] : names_by_reason) {
    std::ranges::replace(names, '_', ' ');
    const std::string text =
        reason.empty() ? "not reported: " + names : fmt::format("not read ({}): {}", reason, names);
    out += paragraph(screen, reason.empty() ? Tone::faint : Tone::warning, text);
  }
  return out;
}

// Says the newest of its Xids in words; empty if it had none.
Printable xid_line(const protocol::Device& device, const Screen& screen) {
  if (!device.xid_errors || device.xid_errors->empty()) return "";
  const auto& last = *std::ranges::max_element(*device.xid_errors, {}, &XidCount::last_seen);
  const std::string times = fmt::format(
      "{} {}, last {}", last.count, last.count == 1 ? "time" : "times", to_rfc3339(last.last_seen));
  if (!last.xid) return formatted("other Xids ({})\n", times);
  const XidRow row = xid_row(*last.xid);
  return paragraph(screen, severity_tone(row.severity),
                   fmt::format("Xid {} ({}): {}", row.number, times, row.meaning));
}

Printable heading(const protocol::Snapshot& snapshot, const protocol::Device& device,
                  const Screen& screen) {
  Printable out = painted(screen, Tone::strong, formatted("GPU {}  {}", device.index, device.name));
  out += formatted("\n{}  {}\n", device.pci_address.empty() ? kNothing : device.pci_address,
                   device.uuid.empty() ? kNothing : device.uuid);
  if (const std::string health = health_text(device); !health.empty()) {
    out += painted(screen, health_tone(device), health) + "\n";
  } else if (device.health == Health::healthy) {
    out += painted(screen, Tone::good, "healthy") + "\n";
  }
  if (device.bottleneck && device.bottleneck->cause == BottleneckCause::narrow_link) {
    out += paragraph(screen, Tone::warning, "It " + device.bottleneck->text + ".");
  }
  out += xid_line(device, screen);
  if (snapshot.simulated) out += painted(screen, Tone::faint, "This GPU is simulated.") + "\n";
  return out;
}

// A struct keeps the names of the metrics out of the namespace.
struct Lists {
  using enum Metric;

  static constexpr std::array kIdentity = {brand,           architecture,      compute_capability,
                                           serial,          board_part_number, vbios_version,
                                           inforom_version, numa_node,         minor_number};
  static constexpr std::array kUtilization = {utilization_gpu, utilization_memory,
                                              utilization_encoder, utilization_decoder};
  static constexpr std::array kMemory = {memory_used, memory_free, memory_reserved, memory_total,
                                         bar1_used,   bar1_free,   bar1_total};
  static constexpr std::array kClocks = {clock_sm,
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
  static constexpr std::array kPower = {power_draw,      power_draw_average, power_draw_instant,
                                        power_limit,     power_limit_set,    power_limit_default,
                                        power_limit_min, power_limit_max,    energy_total};
  static constexpr std::array kTemperatures = {temperature_core,
                                               temperature_core_max,
                                               temperature_slowdown,
                                               temperature_shutdown,
                                               temperature_memory,
                                               temperature_memory_max,
                                               fan_speed};
  static constexpr std::array kEcc = {ecc_mode,
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
  static constexpr std::array kModes = {persistence_mode, compute_mode, mig_mode, mig_mode_pending,
                                        recovery_action};
};

template <std::size_t N>
std::vector<Metric> listed(const std::array<Metric, N>& metrics) {
  return {metrics.begin(), metrics.end()};
}

// The rows that no list places stand in the group of their prefix, in the order of the catalog.
std::vector<Group> all_groups() {
  std::vector<Group> groups = {
      {"Identity", "", listed(Lists::kIdentity)},
      {"Utilisation", "utilization_", listed(Lists::kUtilization)},
      {"Memory", "memory_", listed(Lists::kMemory)},
      {"Clocks", "clock_", listed(Lists::kClocks)},
      {"Power", "power_", listed(Lists::kPower)},
      {"Temperatures", "temperature_", listed(Lists::kTemperatures)},
      {"PCIe", "pcie_", {}},
      {"NVLink", "nvlink_", {}},
      {"ECC", "ecc_", listed(Lists::kEcc)},
      {"Modes", "", listed(Lists::kModes)},
      {"GPM", "gpm_", {}},
      {"Processes", "processes_", {}},
  };
  std::set<Metric> placed;
  for (const Group& group : groups) placed.insert(group.metrics.begin(), group.metrics.end());
  for (const MetricRow& row : catalog()) {
    if (row.subject != MetricSubject::device || placed.contains(row.metric)) continue;
    const auto home = std::ranges::find_if(groups, [&](const Group& group) {
      return !group.prefix.empty() && row.key.starts_with(group.prefix);
    });
    (home == groups.end() ? groups.front() : *home).metrics.push_back(row.metric);
  }
  return groups;
}

}  // namespace

Printable device_page(const protocol::Snapshot& snapshot, const protocol::Device& device,
                      const Screen& screen) {
  Printable out = heading(snapshot, device, screen) + "\n" + groups_text(device, screen);
  const Printable processes = process_table(device, screen);
  if (!processes.empty()) out += processes + "\n";
  return out + missing_text(device, screen);
}

const std::vector<Group>& groups() {
  static const std::vector<Group> kGroups = all_groups();
  return kGroups;
}

}  // namespace gpuyard::cli
