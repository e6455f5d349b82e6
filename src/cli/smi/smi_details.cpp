#include "cli/smi/smi_details.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "base/html.h"
#include "base/text.h"
#include "cli/shared_options.h"
#include "cli/smi/smi_fields.h"
#include "cli/smi/smi_rows.h"

namespace gpuyard::cli {
namespace {

using protocol::Device;
using Shape = SmiRow::Shape;

constexpr int kNewest = 9999;       // the branch of a driver whose version is not known
constexpr int kSecondSchema = 580;  // the branch that wrote nvsmi_device_v13.dtd first
constexpr int kWithCapabilities = 570;
constexpr std::string_view kNoValue = "N/A";

int branch_of(const SmiReport& report) {
  const int branch = driver_branch(report.queried.snapshot);
  return branch == 0 ? kNewest : branch;
}

// The words of -d, and the rows of a GPU that they stand for.
struct SmiSection {
  std::string_view word;
  std::string_view tags;  // with blanks between them
};
constexpr std::array kSmiSections = {
    SmiSection{"MEMORY", "fb_memory_usage bar1_memory_usage cc_protected_memory_usage"},
    SmiSection{"UTILIZATION", "utilization encoder_stats fbc_stats"},
    SmiSection{"ECC", "ecc_mode ecc_errors"},
    SmiSection{"TEMPERATURE", "temperature"},
    SmiSection{"POWER", "gpu_power_readings gpu_memory_power_readings module_power_readings"},
    SmiSection{"CLOCK",
               "clocks applications_clocks default_applications_clocks deferred_clocks max_clocks "
               "max_customer_boost_clocks clock_policy"},
    SmiSection{"COMPUTE", "compute_mode"},
    SmiSection{"PIDS", "processes"},
    SmiSection{"PERFORMANCE",
               "performance_state clocks_event_reasons clocks_event_reasons_counters "
               "sparse_operation_mode"},
    SmiSection{"SUPPORTED_CLOCKS", "supported_clocks"},
    SmiSection{"PAGE_RETIREMENT", "retired_pages"},
    SmiSection{"ACCOUNTING", "accounting_mode accounting_mode_buffer_size"},
    SmiSection{"ENCODER_STATS", "encoder_stats"},
    SmiSection{"VOLTAGE", "voltage"},
    SmiSection{"FBC_STATS", "fbc_stats"},
    SmiSection{"ROW_REMAPPER", "remapped_rows"},
    SmiSection{"GSP_FIRMWARE_VERSION", "gsp_firmware_version"},
    SmiSection{"POWER_SMOOTHING", "power_smoothing"},
    SmiSection{"POWER_PROFILES", "power_profiles"},
};

const SmiSection* find_smi_section(std::string_view word) {
  const auto found = std::ranges::find_if(
      kSmiSections, [&](const SmiSection& one) { return equals_ignoring_case(one.word, word); });
  return found != kSmiSections.end() ? &*found : nullptr;
}

// Selects the rows of a GPU by their tags.
class SmiDisplay {
 public:
  explicit SmiDisplay(const std::string& words) {
    if (words.empty()) return;
    for (const std::string& word : split(words, ',')) {
      if (const SmiSection* section = find_smi_section(word)) {
        for (std::string& tag : split(section->tags, ' ')) tags_.push_back(std::move(tag));
      }
    }
  }
  // The clocks are long: they are shown only if they are asked for.
  bool shows(std::string_view tag) const {
    return tags_.empty() ? tag != "supported_clocks" : std::ranges::count(tags_, tag) > 0;
  }

 private:
  std::vector<std::string> tags_;  // empty: all
};

std::map<std::string, Field, std::less<>> fields_by_name() {
  std::map<std::string, Field, std::less<>> fields;
  for (Field& field : known_fields()) {
    std::string name = field.name;
    field.nvidia_smi = true;  // our own fields, too, in its units
    fields.emplace(std::move(name), std::move(field));
  }
  return fields;
}

// Finds the values of one GPU.
class DeviceValues {
 public:
  DeviceValues(const QueryInput& queried, const Device& device)
      : queried_(queried), device_(device) {}

  std::string of(const SmiRow& row) const {
    if (row.shape == Shape::display_clocks) return display_clocks();
    const Field* const field = field_of(row);
    if (field == nullptr) return std::string(kNoValue);
    std::string cell = csv_cell(*field, queried_, device_, true);
    if (cell.starts_with('[') || cell == kNoValue) return without_brackets(std::move(cell));
    return shaped(row.shape, std::move(cell));
  }

 private:
  static const Field* field_of(const SmiRow& row) {
    static const auto kFields = fields_by_name();
    const auto found = kFields.find(smi_header_name(row.field));
    return found != kFields.end() ? &found->second : nullptr;
  }

  static std::string shaped(Shape shape, std::string cell) {
    switch (shape) {
      case Shape::celsius:
        return cell + " C";
      case Shape::lanes:
        return cell + "x";
      case Shape::kilobytes: {
        constexpr std::int64_t kKilobyte = 1024;
        return fmt::format("{} KB/s", parse_number<std::int64_t>(cell).value_or(0) / kKilobyte);
      }
      default:
        return cell;
    }
  }

  std::string display_clocks() const {
    static const Field kBit{Field::ValueKind::word, Metric::throttle_reasons, 0, 0x100, "", true};
    return without_brackets(csv_cell(kBit, queried_, device_, true));
  }

  const QueryInput& queried_;
  const Device& device_;
};

// Calls `visit(row, value)` for the rows of the branch. A row below a section that is left out, or
// that has a value of its own, is left out with it.
template <class Visit>
void for_each_row(int branch, const DeviceValues& values, Visit&& visit) {
  const auto rows = smi_rows();
  int left_out = kNewest;  // rows deeper than this
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SmiRow& row = rows[i];
    if (row.depth > left_out) continue;
    left_out = kNewest;
    if (!row.is_in(branch)) {
      if (row.is_section()) left_out = row.depth;
      continue;
    }
    if (row.shape == Shape::whole_section) {
      if (std::string value = values.of(rows[i + 1]); value == kNoValue) {
        left_out = row.depth;
        visit(row, std::move(value));
        continue;
      }
    }
    visit(row, row.is_section() ? std::string() : values.of(row));
  }
}

Printable text_line(std::size_t depth, std::string_view label, std::string_view value) {
  constexpr std::size_t kIndentWidth = 4;
  constexpr std::size_t kColumn = 42;
  const std::string start = std::string(depth * kIndentWidth, ' ').append(label);
  return value.empty() ? formatted("{}\n", start)
                       : formatted("{:<{}}: {}\n", start, kColumn, value);
}

std::string memory_text(const ListedProcess& process) {
  if (!process.memory_bytes) return std::string(kNoValue);
  return fmt::format("{} MiB", mebibytes(*process.memory_bytes));
}

// The processes of a GPU, or why they are not known.
struct ProcessesOfGpu {
  std::vector<const ListedProcess*> list;
  std::string missing;  // empty: they are known
};

ProcessesOfGpu processes_of(const SmiReport& report, const Device& device) {
  ProcessesOfGpu processes;
  const auto reason = report.processes.missing.find(device.uuid);
  if (reason != report.processes.missing.end()) {
    processes.missing = without_brackets(missing_word(reason->second));
  }
  for (const ListedProcess& process : report.processes.processes) {
    if (process.gpu_index == device.index) processes.list.push_back(&process);
  }
  return processes;
}

Printable processes_text(const ProcessesOfGpu& processes) {
  if (processes.list.empty()) {
    return text_line(1, "Processes", processes.missing.empty() ? "None" : processes.missing);
  }
  Printable text = text_line(1, "Processes", "");
  for (const ListedProcess* process : processes.list) {
    text += text_line(2, "GPU instance ID", kNoValue);
    text += text_line(2, "Compute instance ID", kNoValue);
    text += text_line(2, "Process ID", std::to_string(process->pid));
    text += text_line(3, "Type", smi_process_type(process->kind));
    text += text_line(3, "Name", process->name.value_or("Not Found"));
    text += text_line(3, "Used GPU Memory", memory_text(*process));
  }
  return text;
}

Printable device_text(const SmiReport& report, const Device& device, const SmiDisplay& display) {
  const int branch = branch_of(report);
  Printable text = formatted("GPU {}\n", long_pci_address(device.pci_address));
  bool shown = true;
  for_each_row(branch, {report.queried, device}, [&](const SmiRow& row, const std::string& value) {
    if (row.depth == 1) shown = display.shows(row.tag);
    if (shown && !row.label.empty()) text += text_line(row.depth, row.label, value);
  });
  if (display.shows("processes")) text += processes_text(processes_of(report, device));
  if (branch >= kWithCapabilities && display.shows("capabilities")) {
    text += text_line(1, "Capabilities", "") + text_line(2, "EGM", kNoValue);
  }
  return text;
}

// Writes elements, each in a line, and closes those that are left.
class XmlWriter {
 public:
  void open(std::size_t depth, std::string_view tag) {
    close_to(depth);
    indent(depth);
    text_ += formatted("<{}>\n", tag);
    open_.emplace_back(tag);
  }
  void value(std::size_t depth, std::string_view tag, std::string_view value) {
    close_to(depth);
    indent(depth);
    text_ += formatted("<{0}>{1}</{0}>\n", tag, escape_html(value));
  }
  // A text in a line of its own.
  void line(std::string_view text) {
    indent(open_.size());
    text_ += formatted("{}\n", text);
  }
  void close_to(std::size_t depth) {
    while (open_.size() > depth) {
      const std::string tag = open_.back();
      open_.pop_back();
      indent(open_.size());
      text_ += formatted("</{}>\n", std::string_view(tag).substr(0, tag.find(' ')));
    }
  }
  Printable take() {
    close_to(0);
    return std::move(text_);
  }

 private:
  void indent(std::size_t depth) {
    for (std::size_t i = 0; i < depth; ++i) text_ += "\t";
  }

  std::vector<std::string> open_;
  Printable text_;
};

void add_processes(XmlWriter& xml, const ProcessesOfGpu& processes) {
  xml.open(2, "processes");
  if (!processes.missing.empty()) xml.line(processes.missing);
  for (const ListedProcess* process : processes.list) {
    xml.open(3, "process_info");
    xml.value(4, "gpu_instance_id", kNoValue);
    xml.value(4, "compute_instance_id", kNoValue);
    xml.value(4, "pid", std::to_string(process->pid));
    xml.value(4, "type", smi_process_type(process->kind));
    xml.value(4, "process_name", process->name.value_or("Not Found"));
    xml.value(4, "used_memory", memory_text(*process));
  }
  xml.open(2, "accounted_processes");
}

void add_device(XmlWriter& xml, const SmiReport& report, const Device& device) {
  xml.open(1, fmt::format("gpu id=\"{}\"", long_pci_address(device.pci_address)));
  for_each_row(branch_of(report), {report.queried, device},
               [&](const SmiRow& row, std::string value) {
                 if (row.tag.empty()) return;
                 const std::size_t depth = std::size_t{row.depth} + 1;
                 if (row.shape == Shape::hex && value.starts_with("0x")) value.erase(0, 2);
                 if (row.is_section() && value.empty()) {
                   xml.open(depth, row.tag);
                 } else if (row.shape == Shape::none) {
                   xml.open(depth, row.tag);
                   xml.line("None");
                 } else {
                   xml.value(depth, row.tag, value);
                 }
               });
  add_processes(xml, processes_of(report, device));
  if (branch_of(report) < kWithCapabilities) return;
  xml.open(2, "capabilities");
  xml.value(3, "egm", kNoValue);
}

}  // namespace

Result<void> check_smi_sections(const std::string& display) {
  if (display.empty()) return {};
  for (const std::string& word : split(display, ',')) {
    if (find_smi_section(word) != nullptr) continue;
    std::vector<std::string_view> words;
    for (const SmiSection& section : kSmiSections) words.push_back(section.word);
    return Error{Errc::invalid, "-d: " + unknown_word("section", word, words), "",
                 "gpuyard smi -q -d MEMORY,POWER"};
  }
  return {};
}

Printable smi_details_text(const SmiReport& report, const std::string& words) {
  const protocol::DriverInfo& driver = report.queried.snapshot.driver;
  const SmiDisplay display(words);
  Printable text = "\n==============NVSMI LOG==============\n\n";
  text += text_line(0, "Timestamp", smi_time(report.at));
  text += text_line(0, "Driver Version", driver.driver_version.value_or(std::string(kNoValue)));
  text += text_line(0, "CUDA Version", driver.cuda_driver_version.value_or(std::string(kNoValue)));
  text += "\n";
  text += text_line(0, "Attached GPUs", std::to_string(report.queried.gpu_count));
  for (const Device& device : report.queried.snapshot.devices) {
    text += device_text(report, device, display) + "\n";
  }
  return text;
}

Printable smi_details_xml(const SmiReport& report) {
  const protocol::DriverInfo& driver = report.queried.snapshot.driver;
  XmlWriter xml;
  xml.open(0, "nvidia_smi_log");
  xml.value(1, "timestamp", smi_time(report.at));
  xml.value(1, "driver_version", driver.driver_version.value_or(std::string(kNoValue)));
  xml.value(1, "cuda_version", driver.cuda_driver_version.value_or(std::string(kNoValue)));
  xml.value(1, "attached_gpus", std::to_string(report.queried.gpu_count));
  for (const Device& device : report.queried.snapshot.devices) add_device(xml, report, device);
  return formatted(
             "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "
             "\"nvsmi_device_v{}.dtd\">\n",
             branch_of(report) >= kSecondSchema ? 13 : 12) +
         xml.take();
}

ProbeSet smi_details_probes() {
  std::vector<Field> fields;
  for (const SmiRow& row : smi_rows()) {
    if (row.field.empty()) continue;
    if (auto field = parse_field(row.field)) fields.push_back(*std::move(field));
  }
  return probes_of_fields(fields) | ProbeSet{Probe::processes, Probe::throttle_reasons};
}

}  // namespace gpuyard::cli
