#include "cli/read/query_csv.h"

#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/local_time.h"
#include "cli/read/devices.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"

namespace gpuyard::cli {

using protocol::Device;
using ValueKind = Field::ValueKind;

Printable query_csv(const std::vector<Field>& fields, const QueryInput& queried, CsvStyle style) {
  Printable out;
  const auto add_line = [&](auto cell_of) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (i > 0) out += ", ";
      out += Printable(cell_of(fields[i]));
    }
    out += "\n";
  };
  if (style.header) {
    add_line([](const Field& field) {
      const std::string_view unit = unit_of(field);
      return unit.empty() ? field.name : fmt::format("{} [{}]", field.name, unit);
    });
  }
  for (const Device& device : queried.snapshot.devices) {
    add_line([&](const Field& field) { return csv_cell(field, queried, device, style.units); });
  }
  return out;
}

Printable field_table(const std::vector<Field>& fields, const QueryInput& queried,
                      const Screen& screen) {
  FittedTable table;
  table.columns.push_back({"GPU", true});
  for (const Device& device : queried.snapshot.devices) {
    table.columns.front().cells.push_back({std::to_string(device.index), Tone::strong});
  }
  for (const Field& field : fields) {
    const bool row = field.what == ValueKind::row;
    const bool text =
        field.what == ValueKind::word || (row && row_of(field.metric).kind == MetricKind::text);
    Column column{field.name, !text};
    for (const Device& device : queried.snapshot.devices) {
      const std::string cell = csv_cell(field, queried, device, true);
      const bool missing = cell.starts_with('[') || cell == "N/A";
      column.cells.push_back(missing ? Cell{std::string(kNothing), Tone::faint} : Cell{cell});
    }
    table.columns.push_back(std::move(column));
  }
  return table.text(screen) + device_notes(queried.snapshot, screen);
}

namespace {

// "2026/01/31 12:00:00.250": the local time of the query.
std::string timestamp() {
  const WallTime now = wall_now();
  constexpr std::int64_t kMillis = 1000;
  return fmt::format("{}.{:03}", format_local(now, "%Y/%m/%d %H:%M:%S"), to_unix_ms(now) % kMillis);
}

std::string with_unit(std::string text, const Field& field, bool units) {
  const std::string_view unit = unit_of(field);
  return units && !unit.empty() ? text.append(" ").append(unit) : text;
}

std::string state_word(const MetricRow& row, std::int64_t number) {
  const auto word = std::ranges::find(row.words, number, &MetricWord::value);
  if (word == row.words.end()) return missing_word({MissingReason::failed, "Unknown Error"});
  // nvidia-smi writes "exclusive_process" as Exclusive_Process.
  std::string text(word->text);
  bool start = true;
  for (char& c : text) {
    if (start && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    start = c == '_';
  }
  return text;
}

std::string number_cell(const Field& field, std::int64_t number, const Device& device) {
  const MetricRow& row = row_of(field.metric);
  if (field.what == ValueKind::word) return (number & field.bit) != 0 ? "Active" : "Not Active";
  if (row.kind == MetricKind::flags)
    return fmt::format("0x{:016X}", std::bit_cast<std::uint64_t>(number));
  if (row.kind == MetricKind::state) return state_word(row, number);
  if (row.metric == Metric::performance_state) return fmt::format("P{}", number);
  if (row.metric == Metric::memory_used) {
    number -= protocol::number_of(device.readings, Metric::memory_reserved).value_or(0);
  }
  switch (row.unit) {
    case Unit::bytes:
      return std::to_string(mebibytes(number));
    case Unit::milliwatts:
      return fmt::format("{:.2f}", static_cast<double>(number) / 1000);
    case Unit::nanoseconds:
      return std::to_string(number / 1000);
    default:
      return std::to_string(number);
  }
}

std::string missing_cell(const Field& field, const Device& device) {
  const Missing* why = reason_of(field, device);
  const std::string word = why == nullptr ? "[N/A]" : missing_word(*why);
  // nvidia-smi prints only this field without brackets.
  return field.name == "temperature.memory" && word == "[N/A]" ? "N/A" : word;
}

// A comma in a value would begin a new column.
std::string without_commas(std::string text) {
  std::ranges::replace(text, ',', '?');
  return text;
}

std::string identity_cell(const Field& field, const protocol::Snapshot& snapshot,
                          const Device& device) {
  const auto or_missing = [](const std::string& text) {
    return text.empty() ? std::string("[Unknown Error]") : without_commas(text);
  };
  switch (field.metric) {
    case Metric::name:
      return or_missing(device.name);
    case Metric::uuid:
      return or_missing(device.uuid);
    case Metric::pci_address:
      return or_missing(field.nvidia_smi ? long_pci_address(device.pci_address)
                                         : device.pci_address);
    case Metric::driver_version:
      return without_commas(snapshot.driver.driver_version.value_or("[N/A]"));
    case Metric::nvml_version:
      return without_commas(snapshot.driver.nvml_version.value_or("[N/A]"));
    default:
      return without_commas(snapshot.driver.cuda_driver_version.value_or("[N/A]"));
  }
}

// "0x0000", "0x1A": the part of an address between two of its separators.
std::string pci_cell(std::string_view address, ValueKind what) {
  if (address.empty()) return "[Unknown Error]";
  const std::string whole = long_pci_address(address);
  constexpr std::size_t kDomain = 8;
  switch (what) {
    case ValueKind::pci_domain:
      return "0x" + whole.substr(kDomain / 2, kDomain / 2);
    case ValueKind::pci_bus:
      return "0x" + whole.substr(kDomain + 1, 2);
    default:
      return "0x" + whole.substr(kDomain + 4, 2);
  }
}

// Writes our own fields: the JSON value, with blanks between the elements of a list.
std::string json_text(const boost::json::value& value) {
  if (const auto* text = value.if_string()) return without_commas(std::string(*text));
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : " ") + part; };
  if (const auto* list = value.if_array()) {
    for (const auto& item : *list) add(item.is_null() ? std::string("-") : json_text(item));
  } else if (const auto* object = value.if_object()) {
    for (const auto& [name, item] : *object) add(std::string(name) + "=" + json_text(item));
  } else if (value.is_double()) {
    json::put_double(out, value.get_double());
  } else if (value.is_number()) {
    out = std::to_string(value.to_number<std::int64_t>());
  }
  return out.empty() ? "none" : out;
}

std::string own_cell(const Field& field, const Device& device) {
  const auto readings = device.readings.all(field.metric);
  const bool known = std::ranges::any_of(readings, [](const Reading& r) { return !r.missing(); });
  if (!known) return missing_cell(field, device);
  return json_text(readings_as_json(device).at(json_key(row_of(field.metric))));
}

std::string reading_cell(const Field& field, const Device& device, bool units) {
  // The last reading of an unresponsive GPU does not tell its state now.
  if (device.condition == DeviceCondition::unresponsive) return "[Timeout]";
  if (!field.nvidia_smi) return own_cell(field, device);
  const Reading* reading = device.readings.find(field.metric, field.of);
  if (reading == nullptr || reading->missing() != nullptr) return missing_cell(field, device);
  if (const std::string* text = reading->text()) return without_commas(*text);
  return with_unit(number_cell(field, *reading->number(), device), field, units);
}

}  // namespace

const Missing* reason_of(const Field& field, const Device& device) {
  const MetricRow& row = row_of(field.metric);
  for (const std::uint16_t index : {field.of, std::uint16_t{0}}) {
    const auto reason = device.missing.find(protocol::json_key(row, index));
    if (reason != device.missing.end()) return &reason->second;
  }
  return nullptr;
}

boost::json::object readings_as_json(const Device& device) {
  const auto parsed = json::parse(json::to_json(device.readings));
  return parsed && parsed->is_object() ? parsed->get_object() : boost::json::object{};
}

std::int64_t mebibytes(std::int64_t bytes) {
  constexpr std::int64_t kMebibyte = std::int64_t{1} << 20U;
  return (bytes + kMebibyte - 1) / kMebibyte;
}

std::string missing_word(const Missing& missing) {
  if (missing.reason == MissingReason::not_supported) return "[N/A]";
  // NVML's words for its codes. Any other reason is gpuyard's own, which nvidia-smi does not know.
  constexpr std::array<std::string_view, 11> kDriversOwn = {"Insufficient Permissions",
                                                            "GPU is lost",
                                                            "GPU requires reset",
                                                            "Timeout",
                                                            "Corrupted infoROM",
                                                            "Insufficient External Power",
                                                            "Interrupt Request Issue",
                                                            "Invalid Argument",
                                                            "Not Found",
                                                            "Insufficient Size",
                                                            "Driver Not Loaded"};
  const bool own = std::ranges::find(kDriversOwn, missing.detail) != kDriversOwn.end();
  return own ? fmt::format("[{}]", missing.detail) : "[Unknown Error]";
}

std::string long_pci_address(std::string_view address) {
  std::string out(address);
  constexpr std::size_t kShortDomain = 4;
  if (out.find(':') == kShortDomain) out.insert(0, "0000");
  for (char& c : out) {
    if (c >= 'a' && c <= 'f') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

std::string csv_cell(const Field& field, const QueryInput& queried, const Device& device,
                     bool units) {
  switch (field.what) {
    case ValueKind::timestamp:
      return timestamp();
    case ValueKind::index:
      return std::to_string(device.index);
    case ValueKind::count:
      return std::to_string(queried.gpu_count);
    case ValueKind::pci_domain:
    case ValueKind::pci_bus:
    case ValueKind::pci_device:
      return pci_cell(device.pci_address, field.what);
    case ValueKind::unmeasured:
      return "[N/A]";
    case ValueKind::row:
    case ValueKind::element:
    case ValueKind::word:
      break;
  }
  if (row_of(field.metric).subject != MetricSubject::device) {
    return identity_cell(field, queried.snapshot, device);
  }
  return reading_cell(field, device, units);
}

}  // namespace gpuyard::cli
