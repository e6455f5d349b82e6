#include "faces/protocol/events.h"

#include <array>

#include <fmt/format.h>

#include "base/text.h"
#include "gpu/device/catalog.h"

namespace gpuyard::protocol {
namespace {

std::optional<double> watts_of(const Sample& sample, Metric metric) {
  const std::int64_t* milliwatts = sample.number(metric);
  if (milliwatts == nullptr) return std::nullopt;
  return static_cast<double>(*milliwatts) /
         static_cast<double>(unit_info(Unit::milliwatts).json_divisor);
}

GpuSummary summary_of(const DeviceState& device) {
  const Sample& sample = device.sample;
  return {device.info.index,
          device.info.uuid,
          device.condition,
          device.health.verdict,
          number_of(sample, Metric::utilization_gpu),
          number_of(sample, Metric::temperature_core),
          watts_of(sample, Metric::power_draw),
          number_of(sample, Metric::clock_sm),
          number_of(sample, Metric::memory_used),
          number_of(sample, Metric::memory_total),
          device.bottleneck ? std::optional(device.bottleneck->cause) : std::nullopt,
          device.bottleneck ? std::optional(device.bottleneck->brief) : std::nullopt};
}

// One column: its name, and a GPU's number in it.
struct Column {
  std::string_view name;
  std::optional<std::int64_t> (*value)(const DeviceState&);
};

template <Metric metric>
std::optional<std::int64_t> rounded_value(const DeviceState& device) {
  const auto number = number_of(device.sample, metric);
  if (!number) return std::nullopt;
  constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
  const std::int64_t divisor = row_of(metric).unit == Unit::bytes        ? kMebibyte
                               : row_of(metric).unit == Unit::milliwatts ? 1000
                                                                         : 1;
  return (*number + divisor / 2) / divisor;
}

std::optional<std::int64_t> share_percent(const DeviceState& device) {
  return device.bottleneck ? device.bottleneck->share_percent : std::nullopt;
}

constexpr std::array kColumns = {
    Column{"utilization_gpu_percent", &rounded_value<Metric::utilization_gpu>},
    Column{"temperature_core_c", &rounded_value<Metric::temperature_core>},
    Column{"power_draw_w", &rounded_value<Metric::power_draw>},
    Column{"clock_sm_mhz", &rounded_value<Metric::clock_sm>},
    Column{"memory_used_mib", &rounded_value<Metric::memory_used>},
    Column{"bottleneck_share_percent", &share_percent},
};

}  // namespace

SnapshotSummary summary_of(const gpuyard::Snapshot& snapshot) {
  SnapshotSummary out;
  out.simulated = snapshot.driver.info.simulated;
  out.generation = snapshot.generation;
  out.taken_at = to_rfc3339(snapshot.wall);
  out.driver_initialised = snapshot.driver.initialised;
  if (!snapshot.driver.why.empty()) out.driver_error = snapshot.driver.why;
  for (const DeviceState& device : snapshot.devices) out.devices.push_back(summary_of(device));
  return out;
}

std::vector<std::string> column_names() {
  std::vector<std::string> names;
  for (const Column& column : kColumns) names.emplace_back(column.name);
  return names;
}

ColumnsResync columns_resync_of(const gpuyard::Snapshot& snapshot, ResyncReason reason) {
  ColumnsResync out;
  out.reason = reason;
  out.simulated = snapshot.driver.info.simulated;
  out.t_ms = to_unix_ms(snapshot.wall);
  out.driver_initialised = snapshot.driver.initialised;
  if (!snapshot.driver.why.empty()) out.driver_error = snapshot.driver.why;
  out.columns = column_names();
  for (const DeviceState& device : snapshot.devices) {
    ColumnsDevice one{summary_of(device),
                      device.info.name,
                      device.info.pci_address,
                      watts_of(device.sample, Metric::power_limit),
                      {},
                      {}};
    if (device.bottleneck) {
      one.bottleneck_text = device.bottleneck->text;
      one.bottleneck_advice = device.bottleneck->advice;
    }
    out.devices.push_back(std::move(one));
  }
  return out;
}

// A GPU that does not answer has no numbers: its last ones are old.
std::string columns_of(const gpuyard::Snapshot& snapshot, const std::vector<std::size_t>& gpus) {
  std::string out = fmt::format(R"({{"t_ms":{},"v":[)", to_unix_ms(snapshot.wall));
  for (const Column& column : kColumns) {
    out += '[';
    for (const std::size_t gpu : gpus) {
      const DeviceState& device = snapshot.devices[gpu];
      const bool answers = device.condition == DeviceCondition::responsive;
      const auto number = answers ? column.value(device) : std::nullopt;
      out += number ? std::to_string(*number) : "null";
      out += ',';
    }
    if (out.back() == ',') out.pop_back();
    out += "],";
  }
  out.back() = ']';
  return out + '}';
}

std::string static_columns_of(const gpuyard::Snapshot& snapshot,
                              const std::vector<std::size_t>& gpus) {
  std::string out = snapshot.driver.why;
  for (const std::size_t gpu : gpus) {
    const DeviceState& device = snapshot.devices[gpu];
    const auto health = device.health.verdict;
    const std::string verdict = health ? std::string(name_of(*health)) : "";
    out += fmt::format("\n{} {} {} {} {} {}", device.info.index, device.info.id,
                       enum_name(device.condition), verdict,
                       number_of(device.sample, Metric::power_limit).value_or(-1),
                       number_of(device.sample, Metric::memory_total).value_or(-1));
  }
  return out;
}

std::optional<EventId> parse_event_id(std::string_view text) {
  const std::size_t dash = text.rfind('-');
  if (dash == text.npos || dash == 0) return std::nullopt;
  const auto sequence = parse_number<std::uint64_t>(text.substr(dash + 1));
  if (!sequence) return std::nullopt;
  return EventId{std::string(text.substr(0, dash)), *sequence};
}

}  // namespace gpuyard::protocol
