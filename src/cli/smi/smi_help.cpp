#include "cli/smi/smi_help.h"

#include <array>

#include "cli/read/query_fields.h"
#include "cli/smi/smi_fields.h"

namespace gpuyard::cli {
namespace {

constexpr std::array<std::string_view, 14> kRowFields = {
    "timestamp",
    "gpu_name",
    "gpu_bus_id",
    "gpu_serial",
    "gpu_uuid",
    "remapped_rows.correctable",
    "remapped_rows.uncorrectable",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "remapped_rows.histogram.max",
    "remapped_rows.histogram.high",
    "remapped_rows.histogram.partial",
    "remapped_rows.histogram.low",
    "remapped_rows.histogram.none",
};

struct ProcessFieldHelp {
  std::string_view name;
  std::string_view alias;
  std::string_view help;  // empty: that of the GPU's field of this name
};
constexpr std::array kProcessHelp = {
    ProcessFieldHelp{"timestamp", "", ""},
    ProcessFieldHelp{"gpu_name", "", ""},
    ProcessFieldHelp{"gpu_bus_id", "", ""},
    ProcessFieldHelp{"gpu_serial", "", ""},
    ProcessFieldHelp{"gpu_uuid", "", ""},
    ProcessFieldHelp{"pid", "", "PID as seen by the driver; it may differ inside a container."},
    ProcessFieldHelp{
        "process_name", "name",
        "The program as it was started, if visible; otherwise the kernel's name for it."},
    ProcessFieldHelp{"used_gpu_memory", "used_memory", "Device memory of the process on this GPU."},
};

Printable title(std::string_view option) {
  return formatted("List of valid properties to query for the switch \"{}\":\n\n", option);
}

Printable entry(std::string_view name, std::string_view alias, std::string_view help) {
  Printable names = formatted("\"{}\"", name);
  if (!alias.empty()) names += formatted(" or \"{}\"", alias);
  return names + formatted("\n{}\n\n", help);
}

std::string_view help_of_gpu_field(std::string_view name) {
  const auto field = parse_field(name);
  return field ? help_of(*field) : std::string_view();
}

// Drivers before 535 called the event reasons throttle reasons.
std::string older_name(std::string_view name) {
  constexpr std::string_view kNow = "clocks_event_reasons.";
  if (!name.starts_with(kNow)) return "";
  return std::string("clocks_throttle_reasons.").append(name.substr(kNow.size()));
}

}  // namespace

Printable smi_gpu_field_help() {
  Printable text = title("--query-gpu");
  for (const SmiField& field : smi_fields()) {
    const std::string older = older_name(field.name);
    text += entry(field.name, older.empty() ? field.alias : older, help_of_gpu_field(field.name));
  }
  return text;
}

Printable smi_process_field_help() {
  Printable text = title("--query-compute-apps");
  for (const ProcessFieldHelp& field : kProcessHelp) {
    text += entry(field.name, field.alias,
                  field.help.empty() ? help_of_gpu_field(field.name) : field.help);
  }
  return text;
}

Printable smi_row_field_help() {
  Printable text = title("--query-remapped-rows");
  for (const std::string_view name : kRowFields) text += entry(name, "", help_of_gpu_field(name));
  return text;
}

std::span<const std::string_view> smi_row_fields() {
  return kRowFields;
}

}  // namespace gpuyard::cli
