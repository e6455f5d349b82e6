#include "cli/read/query_fields.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.h"
#include "base/try.h"
#include "cli/shared_options.h"
#include "cli/smi/smi_fields.h"

namespace gpuyard::cli {
namespace {

constexpr std::string_view kOldThrottlePrefix = "clocks_throttle_reasons.";
constexpr std::string_view kThrottlePrefix = "clocks_event_reasons.";

std::string canonical(std::string_view name) {
  if (name.starts_with(kOldThrottlePrefix)) {
    return std::string(kThrottlePrefix).append(name.substr(kOldThrottlePrefix.size()));
  }
  return std::string(smi_header_name(name));
}

struct NamedMetric {
  std::string_view name;
  Metric metric;
};
// Further names for rows, beside the catalog's own.
constexpr std::array kExtraFields = {
    NamedMetric{"pcie.link.gen.current", Metric::pcie_generation},
    NamedMetric{"remapped_rows.correctable", Metric::rows_remapped_corrected},
    NamedMetric{"remapped_rows.uncorrectable", Metric::rows_remapped_uncorrected},
    NamedMetric{"remapped_rows.pending", Metric::row_remap_pending},
    NamedMetric{"remapped_rows.failure", Metric::row_remap_failure},
    NamedMetric{"clocks_event_reasons_counters.sw_thermal_slowdown",
                Metric::throttle_time_sw_thermal},
    NamedMetric{"clocks_event_reasons_counters.hw_thermal_slowdown",
                Metric::throttle_time_hw_thermal},
    NamedMetric{"clocks_event_reasons_counters.hw_power_brake_slowdown",
                Metric::throttle_time_power_brake},
};

struct NamedBit {
  std::string_view name;
  std::int64_t bit;
};
constexpr std::array kThrottleBits = {NamedBit{"gpu_idle", 0x1},
                                      NamedBit{"applications_clocks_setting", 0x2},
                                      NamedBit{"sw_power_cap", 0x4},
                                      NamedBit{"hw_slowdown", 0x8},
                                      NamedBit{"sync_boost", 0x10},
                                      NamedBit{"sw_thermal_slowdown", 0x20},
                                      NamedBit{"hw_thermal_slowdown", 0x40},
                                      NamedBit{"hw_power_brake_slowdown", 0x80}};

struct NamedFieldKind {
  std::string_view name;
  Field::ValueKind what;
  std::string_view help;
};
constexpr std::array kQueryFields = {
    NamedFieldKind{"timestamp", Field::ValueKind::timestamp, "Time of the query, in local time."},
    NamedFieldKind{"count", Field::ValueKind::count, "Number of GPUs the driver reports."},
    NamedFieldKind{"index", Field::ValueKind::index,
                   "NVML index of the GPU; may change at a reboot."},
    NamedFieldKind{"pci.domain", Field::ValueKind::pci_domain, "PCI domain, in hex."},
    NamedFieldKind{"pci.bus", Field::ValueKind::pci_bus, "PCI bus, in hex."},
    NamedFieldKind{"pci.device", Field::ValueKind::pci_device, "PCI device, in hex."},
};

// Adds "ecc.errors.corrected.volatile.*" once for each place.
void add_elements(std::vector<Field>& fields, const MetricRow& row) {
  const std::string_view start = row.nvidia_smi.substr(0, row.nvidia_smi.size() - 1);
  const auto add = [&](std::uint16_t index, const std::string& place) {
    fields.push_back(
        {Field::ValueKind::element, row.metric, index, 0, std::string(start) + place, true});
  };
  for (std::uint16_t i = 0; i < extent_of(row.dimension); ++i) {
    const std::string place = element_of(row.dimension, i);
    add(i, place);
    if (place == "device_memory") add(i, "dram");
  }
}

void add_nvidia_smi(std::vector<Field>& fields) {
  for (const NamedFieldKind& named : kQueryFields) {
    fields.push_back({named.what, {}, 0, 0, std::string(named.name), true});
  }
  for (const MetricRow& row : catalog()) {
    if (row.nvidia_smi.empty()) continue;
    if (row.nvidia_smi.ends_with('*')) {
      add_elements(fields, row);
    } else {
      // nvidia-smi tells only the first of several fans.
      const bool first = row.dimension != Dimension::none;
      fields.push_back({first ? Field::ValueKind::element : Field::ValueKind::row, row.metric, 0, 0,
                        canonical(row.nvidia_smi), true});
    }
  }
  for (const NamedMetric& named : kExtraFields) {
    fields.push_back({Field::ValueKind::row, named.metric, 0, 0, std::string(named.name), true});
  }
  for (const NamedBit& named : kThrottleBits) {
    fields.push_back({Field::ValueKind::word, Metric::throttle_reasons, 0, named.bit,
                      std::string(kThrottlePrefix).append(named.name), true});
  }
  for (const SmiField& named : smi_fields()) {
    if (std::ranges::find(fields, named.name, &Field::name) != fields.end()) continue;
    fields.push_back({Field::ValueKind::unmeasured, {}, 0, 0, std::string(named.name), true});
  }
}

}  // namespace

std::string_view unit_of(const Field& field) {
  if (field.what == Field::ValueKind::unmeasured) return find_smi_field(field.name)->unit;
  if (!field.nvidia_smi || field.what == Field::ValueKind::word) return "";
  if (field.what != Field::ValueKind::row && field.what != Field::ValueKind::element) return "";
  switch (row_of(field.metric).unit) {
    case Unit::percent:
      return "%";
    case Unit::bytes:
      return "MiB";
    case Unit::milliwatts:
      return "W";
    case Unit::megahertz:
      return "MHz";
    case Unit::nanoseconds:
      return "us";
    default:
      return "";  // nvidia-smi prints none for a temperature
  }
}

std::string_view help_of(const Field& field) {
  if (field.what == Field::ValueKind::unmeasured) return "Not measured by gpuyard: always [N/A].";
  const auto named = std::ranges::find(kQueryFields, field.what, &NamedFieldKind::what);
  return named != kQueryFields.end() ? named->help : row_of(field.metric).help;
}

std::vector<Field> known_fields() {
  std::vector<Field> fields;
  add_nvidia_smi(fields);
  for (const MetricRow& row : catalog()) {
    const std::string key = json_key(row);
    if (std::ranges::find(fields, key, &Field::name) != fields.end()) continue;
    fields.push_back({Field::ValueKind::row, row.metric, 0, 0, key, false});
  }
  return fields;
}

Result<Field> parse_field(std::string_view name) {
  static const auto kFields = known_fields();  // a query has hundreds of names
  const std::string wanted = canonical(name);
  if (const auto found = std::ranges::find(kFields, wanted, &Field::name); found != kFields.end()) {
    return *found;
  }
  std::vector<std::string_view> names;
  for (const Field& field : kFields) names.push_back(field.name);
  for (const SmiField& field : smi_fields()) {
    if (!field.alias.empty()) names.push_back(field.alias);
  }
  return Error{Errc::invalid, unknown_word("field", name, names), "", "gpuyard query --list"};
}

Result<std::vector<Field>> parse_fields(const std::vector<std::string>& names) {
  std::vector<Field> fields;
  for (const std::string& name : split_all(names)) {
    auto field = GPUYARD_TRY(parse_field(name));
    fields.push_back(std::move(field));
  }
  return fields;
}

ProbeSet probes_of_fields(const std::vector<Field>& fields) {
  std::vector<Metric> metrics;
  for (const Field& field : fields) {
    if (field.what > Field::ValueKind::word) continue;
    metrics.push_back(field.metric);
    // nvidia-smi counts memory as used without the reserve.
    if (field.metric == Metric::memory_used) metrics.push_back(Metric::memory_reserved);
  }
  return probes_for(metrics);
}

}  // namespace gpuyard::cli
