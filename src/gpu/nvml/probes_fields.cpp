// Readings that only nvmlDeviceGetFieldValues has. Each field of one call has a return code of its
// own.
#include <array>
#include <bit>
#include <span>

#include "nvml/probes.h"

namespace gpuyard::nvml {
namespace {

struct Field {
  Metric metric;
  unsigned id;
  unsigned scope = 0;
  std::int64_t factor = 1;  // to the row's native unit
};

// Nothing: of a type that no field we read has.
std::optional<std::int64_t> number_of(const FieldValue& field) {
  switch (field.value_type) {
    case kValueUnsigned:
      return static_cast<std::int64_t>(static_cast<unsigned>(field.value));
    case kValueInt:
      return static_cast<int>(static_cast<unsigned>(field.value));
    case kValueUnsignedLong:
    case kValueUnsignedLongLong:
    case kValueLongLong:
      return std::bit_cast<std::int64_t>(field.value);
    default:
      return std::nullopt;
  }
}

void record_field(const Field& asked, const FieldValue& answer, Recorder& record) {
  constexpr std::int64_t kLargest = (std::int64_t{1} << 53U);
  if (answer.code != kSuccess) return record.missing(asked.metric, answer.code);
  const auto number = number_of(answer);
  const bool all_ones = answer.value_type == kValueUnsigned && number == 0xFFFFFFFFLL;
  if (!number || all_ones || *number > kLargest / asked.factor || *number < -kLargest) {
    return record.implausible(asked.metric);
  }
  record.value(asked.metric, *number * asked.factor);
}

template <std::size_t Count>
void read_fields(const Api& api, DeviceHandle device, const std::array<Field, Count>& fields,
                 Recorder record) {
  std::array<FieldValue, Count> values;
  for (std::size_t i = 0; i < Count; ++i) {
    values[i].field_id = fields[i].id;
    values[i].scope_id = fields[i].scope;
    values[i].code = kNoData;  // of a field that the driver leaves out
  }
  const auto ask = [&] {
    const ReturnCode code = api.field_values(device, static_cast<int>(Count), values.data());
    if (code != kSuccess) return code;
    bool all_unsupported = true;
    for (const FieldValue& value : values) {
      all_unsupported = all_unsupported && value.code == kNotSupported;
    }
    return all_unsupported ? kNotSupported : kSuccess;
  };
  if (!record.ask_for(fields.front().metric, ask)) {
    const Missing why = *record.sample().find(fields.front().metric)->missing();
    for (const Field& field : fields) record.missing(field.metric, why);
    return;
  }
  for (std::size_t i = 0; i < Count; ++i) record_field(fields[i], values[i], record);
}

}  // namespace

ThrottleTimeFields throttle_time_fields(int cuda_version) {
  if (cuda_version >= 13010) {
    return {kFieldThrottleSwThermal131, kFieldThrottleHwThermal131, kFieldThrottlePowerBrake131};
  }
  if (cuda_version >= 12090) {
    return {kFieldThrottleSwThermal129, kFieldThrottleHwThermal129, kFieldThrottlePowerBrake129};
  }
  return {};
}

void read_power_fields(const Api& api, DeviceHandle device, Recorder record) {
  constexpr std::array kFields = {Field{Metric::power_draw_average, kFieldPowerAverage},
                                  Field{Metric::power_draw_instant, kFieldPowerInstant}};
  read_fields(api, device, kFields, record);
}

void read_memory_temperature(const Api& api, DeviceHandle device, Recorder record) {
  constexpr std::array kFields = {Field{Metric::temperature_memory, kFieldMemoryTemperature}};
  read_fields(api, device, kFields, record);
}

void read_throttle_times(const Api& api, DeviceHandle device, const ThrottleTimeFields& ids,
                         Recorder record) {
  if (!ids.known()) return record.missing(Probe::throttle_times, kNotSupported);
  const std::array fields = {Field{Metric::throttle_time_sw_thermal, ids.sw_thermal},
                             Field{Metric::throttle_time_hw_thermal, ids.hw_thermal},
                             Field{Metric::throttle_time_power_brake, ids.power_brake}};
  read_fields(api, device, fields, record);
}

void read_nvlink_traffic(const Api& api, DeviceHandle device, Recorder record) {
  constexpr unsigned kAllLinks = ~0U;
  constexpr std::int64_t kKibibyte = 1024;
  constexpr std::array kFields = {
      Field{Metric::nvlink_tx, kFieldNvlinkDataTx, kAllLinks, kKibibyte},
      Field{Metric::nvlink_rx, kFieldNvlinkDataRx, kAllLinks, kKibibyte}};
  read_fields(api, device, kFields, record);
}

}  // namespace gpuyard::nvml
