#include "cli/read/query_fields.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/shared_options.h"

namespace gpuyard::cli {
namespace {

struct Renamed {
  std::string_view from;
  std::string_view to;
};

// Names that users may give, and the names in nvidia-smi's header.
constexpr std::array kSpellings = {
    Renamed{"gpu_name", "name"},
    Renamed{"gpu_serial", "serial"},
    Renamed{"gpu_uuid", "uuid"},
    Renamed{"gpu_bus_id", "pci.bus_id"},
    Renamed{"inforom.image", "inforom.img"},
    Renamed{"clocks.gr", "clocks.current.graphics"},
    Renamed{"clocks.sm", "clocks.current.sm"},
    Renamed{"clocks.mem", "clocks.current.memory"},
    Renamed{"clocks.video", "clocks.current.video"},
    Renamed{"clocks.max.gr", "clocks.max.graphics"},
    Renamed{"clocks.max.mem", "clocks.max.memory"},
    Renamed{"retired_pages.sbe", "retired_pages.single_bit_ecc.count"},
    Renamed{"retired_pages.dbe", "retired_pages.double_bit.count"},
    Renamed{"remapped_rows.sbe", "remapped_rows.correctable"},
    Renamed{"remapped_rows.dbe", "remapped_rows.uncorrectable"},
    Renamed{"gpu.power.draw.average", "power.draw.average"},
    Renamed{"gpu.power.draw.instant", "power.draw.instant"},
    Renamed{"gpu.power.requested_limit", "power.limit"},
    Renamed{"gpu.power.current_limit", "enforced.power.limit"},
    Renamed{"gpu.power.default_limit", "power.default_limit"},
    Renamed{"gpu.power.min_limit", "power.min_limit"},
    Renamed{"gpu.power.max_limit", "power.max_limit"},
};
constexpr std::string_view kOldThrottling = "clocks_throttle_reasons.";
constexpr std::string_view kThrottling = "clocks_event_reasons.";

std::string canonical(std::string_view name) {
  if (name.starts_with(kOldThrottling)) {
    return std::string(kThrottling).append(name.substr(kOldThrottling.size()));
  }
  const auto renamed = std::ranges::find(kSpellings, name, &Renamed::from);
  return std::string(renamed != kSpellings.end() ? renamed->to : name);
}

struct NamedMetric {
  std::string_view name;
  Metric metric;
};
// Further names for rows, beside the catalog's own.
constexpr std::array kFurther = {
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
constexpr std::array kReasons = {NamedBit{"gpu_idle", 0x1},
                                 NamedBit{"applications_clocks_setting", 0x2},
                                 NamedBit{"sw_power_cap", 0x4},
                                 NamedBit{"hw_slowdown", 0x8},
                                 NamedBit{"sync_boost", 0x10},
                                 NamedBit{"sw_thermal_slowdown", 0x20},
                                 NamedBit{"hw_thermal_slowdown", 0x40},
                                 NamedBit{"hw_power_brake_slowdown", 0x80}};

struct NamedWhat {
  std::string_view name;
  Field::What what;
  std::string_view help;
};
constexpr std::array kOfTheQuery = {
    NamedWhat{"timestamp", Field::What::timestamp, "Time of the query, in local time."},
    NamedWhat{"count", Field::What::count, "Number of GPUs the driver reports."},
    NamedWhat{"index", Field::What::index, "NVML index of the GPU; may change at a reboot."},
    NamedWhat{"pci.domain", Field::What::pci_domain, "PCI domain, in hex."},
    NamedWhat{"pci.bus", Field::What::pci_bus, "PCI bus, in hex."},
    NamedWhat{"pci.device", Field::What::pci_device, "PCI device, in hex."},
};

// Adds "ecc.errors.corrected.volatile.*" once for each place.
void add_places(std::vector<Field>& fields, const Row& row) {
  const std::string_view start = row.nvidia_smi.substr(0, row.nvidia_smi.size() - 1);
  const auto add = [&](std::uint16_t index, const std::string& place) {
    fields.push_back(
        {Field::What::element, row.metric, index, 0, std::string(start) + place, true});
  };
  for (std::uint16_t i = 0; i < extent_of(row.dimension); ++i) {
    const std::string place = element_of(row.dimension, i);
    add(i, place);
    if (place == "device_memory") add(i, "dram");
  }
}

void add_nvidia_smi(std::vector<Field>& fields) {
  for (const NamedWhat& named : kOfTheQuery) {
    fields.push_back({named.what, {}, 0, 0, std::string(named.name), true});
  }
  for (const Row& row : catalog()) {
    if (row.nvidia_smi.empty()) continue;
    if (row.nvidia_smi.ends_with('*')) {
      add_places(fields, row);
    } else {
      // nvidia-smi tells only the first of several fans.
      const bool first = row.dimension != Dimension::none;
      fields.push_back({first ? Field::What::element : Field::What::row, row.metric, 0, 0,
                        canonical(row.nvidia_smi), true});
    }
  }
  for (const NamedMetric& named : kFurther) {
    fields.push_back({Field::What::row, named.metric, 0, 0, std::string(named.name), true});
  }
  for (const NamedBit& named : kReasons) {
    fields.push_back({Field::What::word, Metric::throttle_reasons, 0, named.bit,
                      std::string(kThrottling).append(named.name), true});
  }
}

}  // namespace

std::string_view unit_of(const Field& field) {
  if (!field.nvidia_smi || field.what == Field::What::word) return "";
  if (field.what != Field::What::row && field.what != Field::What::element) return "";
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
  const auto named = std::ranges::find(kOfTheQuery, field.what, &NamedWhat::what);
  return named != kOfTheQuery.end() ? named->help : row_of(field.metric).help;
}

std::vector<Field> known_fields() {
  std::vector<Field> fields;
  add_nvidia_smi(fields);
  for (const Row& row : catalog()) {
    const std::string key = json_key(row);
    if (std::ranges::find(fields, key, &Field::name) != fields.end()) continue;
    fields.push_back({Field::What::row, row.metric, 0, 0, key, false});
  }
  return fields;
}

Result<Field> parse_field(std::string_view name) {
  const auto fields = known_fields();
  const std::string wanted = canonical(name);
  if (const auto found = std::ranges::find(fields, wanted, &Field::name); found != fields.end()) {
    return *found;
  }
  std::vector<std::string_view> names;
  for (const Field& field : fields) names.push_back(field.name);
  for (const Renamed& spelling : kSpellings) names.push_back(spelling.from);
  return Error{Errc::invalid, unknown_word("field", name, names), "", "gpuyard query --list"};
}

Result<std::vector<Field>> parse_fields(const std::vector<std::string>& names) {
  std::vector<Field> fields;
  for (const std::string& name : split_all(names)) {
    auto field = parse_field(name);
    if (!field) return std::move(field).error();
    fields.push_back(*std::move(field));
  }
  return fields;
}

ProbeSet probes_of_fields(const std::vector<Field>& fields) {
  std::vector<Metric> metrics;
  for (const Field& field : fields) {
    if (field.what > Field::What::word) continue;
    metrics.push_back(field.metric);
    // nvidia-smi counts memory as used without the reserve.
    if (field.metric == Metric::memory_used) metrics.push_back(Metric::memory_reserved);
  }
  return probes_filling(metrics);
}

}  // namespace gpuyard::cli
