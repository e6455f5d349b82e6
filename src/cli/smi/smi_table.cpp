#include "cli/smi/smi_table.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/local_time.h"
#include "base/text.h"

namespace gpuyard::cli {

std::string smi_time(WallTime at) {
  return format_local(at, "%a %b %e %T %Y");
}

int driver_branch(const protocol::Snapshot& snapshot) {
  const auto& known = snapshot.driver.driver_version;
  std::string_view version = known ? std::string_view(*known) : std::string_view();
  return parse_number<int>(take_until('.', version)).value_or(0);
}

std::string without_brackets(std::string cell) {
  if (!cell.starts_with('[') || !cell.ends_with(']')) return cell;
  return cell.substr(1, cell.size() - 2);
}

std::string_view smi_process_type(ProcessKind kind) {
  switch (kind) {
    case ProcessKind::compute:
      return "C";
    case ProcessKind::graphics:
      return "G";
    case ProcessKind::compute_and_graphics:
      break;
  }
  return "C+G";
}

namespace {

using protocol::Device;

// Drivers before 550 have a narrower table.
struct TableStyle {
  std::size_t middle;   // the column of the bus and the memory, without its blanks
  std::size_t version;  // the driver's version in the title
  std::size_t pid;
  std::size_t process;          // the column of the process's name
  std::size_t limit;            // the power limit
  bool blank_line;              // before the processes: one of blanks
  std::string_view title_ends;  // of the line below the title
};

TableStyle style_of(int branch) {
  constexpr int kWider = 550;
  constexpr int kJunction = 560;
  if (branch != 0 && branch < kWider) return {20, 13, 10, 41, 4, true, "|+"};
  return {22, 15, 16, 37, 5, false, branch != 0 && branch < kJunction ? "|+" : "++"};
}

constexpr std::size_t kLeft = 39;   // the column of the name, without its blanks
constexpr std::size_t kRight = 20;  // the column of the utilisation, without its blanks

std::size_t width_of(const TableStyle& style) {
  return kLeft + style.middle + kRight + 8;
}

// `ends`: the first and the last character.
std::string rule(const TableStyle& style, std::string_view ends, char line) {
  const auto part = [&](std::size_t width) { return std::string(width + 2, line); };
  return fmt::format("{}{}+{}+{}{}\n", ends.front(), part(kLeft), part(style.middle), part(kRight),
                     ends.back());
}

std::string border(const TableStyle& style) {
  return fmt::format("+{}+\n", std::string(width_of(style), '-'));
}

std::string row(const TableStyle& style, std::string_view left, std::string_view middle,
                std::string_view right) {
  return fmt::format("| {:<{}} | {:>{}} | {:>{}} |\n", left, kLeft, middle, style.middle, right,
                     kRight);
}

std::string line(const TableStyle& style, std::string_view text) {
  return fmt::format("|{:<{}}|\n", text, width_of(style));
}

std::string heading(const TableStyle& style, const protocol::DriverInfo& driver) {
  const std::string version = printable(driver.driver_version.value_or("N/A"));
  const std::string cuda = printable(driver.cuda_driver_version.value_or("N/A"));
  const auto between = [&](std::string_view one, std::string_view other) {
    return fmt::format("{}{:>{}}", one, other, style.middle - one.size());
  };
  return border(style) +
         line(style, fmt::format(" NVIDIA-SMI {:<23}Driver Version: {:<{}}CUDA Version: {:<9}",
                                 version, version, style.version, cuda)) +
         rule(style, style.title_ends, '-') +
         row(style, "GPU  Name                 Persistence-M", between("Bus-Id", "Disp.A"),
             "Volatile Uncorr. ECC") +
         row(style, "Fan  Temp   Perf          Pwr:Usage/Cap", "Memory-Usage",
             "GPU-Util  Compute M.") +
         row(style, "", "", "MIG M.") + rule(style, "||", '=');
}

// A number, or nvidia-smi's word for one that is missing.
template <class Text>
std::string number_or_word(const Device& device, Metric metric, Text&& text) {
  const bool current = device.condition == DeviceCondition::responsive;
  const auto* number = current ? device.readings.number(metric) : nullptr;
  if (number) return text(*number);
  const auto reason = device.missing.find(json_key(row_of(metric)));
  const bool unsupported =
      reason == device.missing.end() || missing_word(reason->second) == "[N/A]";
  return current && unsupported ? "N/A" : "ERR!";
}

std::string number(const Device& device, Metric metric, std::string_view unit) {
  return number_or_word(device, metric,
                        [&](std::int64_t value) { return fmt::format("{}{}", value, unit); });
}

std::string watts(const Device& device, Metric metric) {
  constexpr std::int64_t kMilliwatts = 1000;
  return number_or_word(device, metric,
                        [](std::int64_t value) { return fmt::format("{}W", value / kMilliwatts); });
}

std::string memory(const Device& device, Metric metric) {
  return number_or_word(device, metric, [&](std::int64_t value) {
    if (metric == Metric::memory_used) {
      value -= protocol::number_of(device.readings, Metric::memory_reserved).value_or(0);
    }
    return fmt::format("{}MiB", mebibytes(value));
  });
}

std::string on_or_off(const Device& device, Metric metric) {
  return number_or_word(device, metric, [](std::int64_t on) { return on != 0 ? "On" : "Off"; });
}

std::string ecc_errors(const Device& device) {
  if (protocol::number_of(device.readings, Metric::ecc_mode) == 0) return "Off";
  return number(device, Metric::ecc_uncorrected_volatile, "");
}

std::string compute_mode(const Device& device) {
  return number_or_word(device, Metric::compute_mode, [](std::int64_t mode) {
    constexpr std::array<std::string_view, 4> kModes = {"Default", "E. Thread", "Prohibited",
                                                        "E. Process"};
    const auto place = static_cast<std::size_t>(mode);
    return std::string(place < kModes.size() ? kModes.at(place) : "ERR!");
  });
}

std::string mig_mode(const Device& device) {
  return number_or_word(device, Metric::mig_mode, [&](std::int64_t mode) {
    const bool changes =
        protocol::number_of(device.readings, Metric::mig_mode_pending).value_or(mode) != mode;
    return fmt::format("{}{}", mode != 0 ? "Enabled" : "Disabled", changes ? "*" : "");
  });
}

std::string shortened_name(const Device& device) {
  constexpr std::size_t kLongest = 27;
  constexpr std::size_t kKept = 24;
  const std::string name = printable(device.name);
  return name.size() > kLongest ? name.substr(0, kKept) + "..." : name;
}

std::string gpu_rows(const TableStyle& style, const Device& device) {
  const std::string state = number(device, Metric::performance_state, "");
  const std::string fan = fmt::format("{:>3}", number(device, Metric::fan_speed, "%"));
  const std::string power = fmt::format("{} / {:>{}}", watts(device, Metric::power_draw),
                                        watts(device, Metric::power_limit), style.limit);
  const std::size_t used = style.middle / 2 - 1;
  return row(style,
             fmt::format("{:>3}  {:<31}{:<3}", device.index, shortened_name(device),
                         on_or_off(device, Metric::persistence_mode)),
             fmt::format("{} {:>3}", printable(long_pci_address(device.pci_address)), "N/A"),
             ecc_errors(device)) +
         row(style,
             fmt::format("{}{:>{}}    {:<4}{:>22}", fan,
                         number(device, Metric::temperature_core, "C"), 9 - fan.size(),
                         state == "N/A" || state == "ERR!" ? state : "P" + state, power),
             fmt::format("{:>{}} / {:>{}}", memory(device, Metric::memory_used), used,
                         memory(device, Metric::memory_total), style.middle - used - 3),
             fmt::format("{:>7}{:>13}", number(device, Metric::utilization_gpu, "%"),
                         compute_mode(device))) +
         row(style, "", "", mig_mode(device)) + rule(style, "++", '-');
}

// The end of a long name says more than its beginning, which is a directory.
std::string shortened_process(const TableStyle& style, const ListedProcess& process) {
  const std::size_t longest = style.process - 5;
  const std::string name = printable(process.name.value_or("[Not Found]"));
  return name.size() > longest ? "..." + name.substr(name.size() - longest + 3) : name;
}

std::string process_rows(const TableStyle& style, const ProcessAnswer& answer) {
  std::string rows;
  for (const ListedProcess& process : answer.processes) {
    const std::string used =
        process.memory_bytes ? fmt::format("{}MiB", mebibytes(*process.memory_bytes)) : "N/A";
    rows += line(style, fmt::format("{:>5}   N/A  N/A{:>{}}{:>7}   {:<{}}{:>9} ", process.gpu_index,
                                    process.pid, style.pid, smi_process_type(process.kind),
                                    shortened_process(style, process), style.process, used));
  }
  for (const auto& [gpu, why] : answer.missing) {
    rows += line(style, fmt::format("  {}: {}", printable(gpu), printable(describe(why))));
  }
  return rows.empty() ? line(style, "  No running processes found") : rows;
}

std::string process_table(const TableStyle& style, const ProcessAnswer& answer) {
  const std::string memory(style.process - std::string_view("Process name").size(), ' ');
  return border(style) + line(style, " Processes:") +
         line(style, fmt::format("  GPU   GI   CI{:>{}}   Type   Process name{}GPU Memory ", "PID",
                                 style.pid + 1, memory.substr(1))) +
         line(style, fmt::format("        ID   ID{:>{}}", "Usage      ", width_of(style) - 15)) +
         fmt::format("|{}|\n", std::string(width_of(style), '=')) + process_rows(style, answer) +
         border(style);
}

}  // namespace

Printable smi_table(const SmiReport& report) {
  const protocol::Snapshot& snapshot = report.queried.snapshot;
  const TableStyle style = style_of(driver_branch(snapshot));
  std::string text = smi_time(report.at) + "       \n" + heading(style, snapshot.driver);
  for (const Device& device : snapshot.devices) text += gpu_rows(style, device);
  text += style.blank_line ? std::string(width_of(style) + 2, ' ') + "\n" : "\n";
  return Printable::lines(text + process_table(style, report.processes));
}

ProbeSet smi_table_probes() {
  return {Probe::memory,   Probe::utilization,       Probe::temperature,
          Probe::power,    Probe::performance_state, Probe::power_limit,
          Probe::fans,     Probe::ecc_totals,        Probe::modes,
          Probe::processes};
}

}  // namespace gpuyard::cli
