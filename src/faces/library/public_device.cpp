#include "faces/library/public_device.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace gpuyard {
namespace library {
namespace {

// JSON keys by metric. Never destroyed: a key must outlive all readings that point to it, also at
// exit.
const std::vector<std::string>& keys() {
  static const auto& all = *[] {
    auto* made = new std::vector<std::string>;
    for (const MetricRow& row : catalog()) made->push_back(json_key(row));
    return made;
  }();
  return all;
}

using PublicValue = decltype(Device::Reading::value);

PublicValue number(const MetricRow& row, std::int64_t native) {
  if (row.kind == MetricKind::flags) {
    std::vector<std::string> set;
    for (const MetricWord& word : row.words) {
      if ((native & word.value) != 0) set.emplace_back(word.text);
    }
    return set;
  }
  if (row.kind != MetricKind::state) return to_key_unit(row, native);
  const auto word = std::ranges::find(row.words, native, &MetricWord::value);
  // A state without a word: the driver is newer than gpuyard.
  return word != row.words.end() ? std::string(word->text) : std::to_string(native);
}

PublicValue value_of(const MetricRow& row, const Reading& reading) {
  if (const auto* native = reading.number()) return number(row, *native);
  if (const auto* text = reading.text()) return *text;
  return *reading.missing();
}

void put_row(std::vector<Device::Reading>& out, const MetricRow& row, const DeviceState& device) {
  const std::string_view key = keys()[static_cast<std::size_t>(row.metric)];
  const auto readings = device.sample.all(row.metric);
  if (readings.empty()) out.push_back({key, "", device.info.fault.value_or(Missing{})});
  const bool one = row.dimension == Dimension::none ||
                   (readings.size() == 1 && readings.front().missing() != nullptr);
  for (const Reading& reading : readings) {
    const std::string element = one ? "" : element_of(row.dimension, reading.index);
    out.push_back({key, element, value_of(row, reading)});
  }
}

Device::Process public_process(const GpuProcess& process) {
  return {process.pid, process.kind != ProcessKind::graphics, process.kind != ProcessKind::compute,
          process.memory_bytes, process.sm_percent};
}

Device::Condition public_condition(DeviceCondition condition) {
  switch (condition) {
    case DeviceCondition::responsive:
      return Device::Condition::responsive;
    case DeviceCondition::unresponsive:
      return Device::Condition::unresponsive;
    case DeviceCondition::unavailable:
      break;
  }
  return Device::Condition::unavailable;
}

}  // namespace

Device public_device(const DeviceState& device) {
  const DeviceInfo& info = device.info;
  Device out{info.index,
             info.uuid,
             info.pci_address,
             info.name,
             public_condition(device.condition),
             device.why,
             device.health,
             {},
             {}};
  for (const MetricRow& row : catalog()) {
    if (row.subject == MetricSubject::device) put_row(out.readings, row, device);
  }
  const auto& list = device.sample.processes();
  if (list && list->processes() != nullptr) {
    auto& processes = out.processes.emplace();
    for (const GpuProcess& process : *list->processes()) {
      processes.push_back(public_process(process));
    }
  }
  return out;
}

HealthPolicy health_policy(const MonitorOptions& options) {
  return {options.thresholds, options.thresholds_of};
}

const MetricRow* find_row(std::string_view key) {
  for (const MetricRow& row : catalog()) {
    if (row.subject != MetricSubject::device) continue;
    if (keys()[static_cast<std::size_t>(row.metric)] == key) return &row;
  }
  return nullptr;
}

double to_key_unit(const MetricRow& row, std::int64_t native) {
  return static_cast<double>(native) / static_cast<double>(unit_info(row.unit).json_divisor);
}

std::int64_t to_native_unit(const MetricRow& row, double value) {
  const double native = std::round(value * static_cast<double>(unit_info(row.unit).json_divisor));
  constexpr double kBeyond = 9223372036854775808.0;  // 2^63, the first that int64 cannot hold
  if (native >= kBeyond) return std::numeric_limits<std::int64_t>::max();
  if (native < -kBeyond) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(native);
}

}  // namespace library

const Device::Reading* Device::find(std::string_view key, std::string_view element) const {
  for (const Reading& reading : readings) {
    if (reading.key == key && (element.empty() || reading.element == element)) return &reading;
  }
  return nullptr;
}

std::optional<double> Device::number(std::string_view key, std::string_view element) const {
  const Reading* reading = find(key, element);
  const double* value = reading != nullptr ? reading->number() : nullptr;
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

}  // namespace gpuyard
