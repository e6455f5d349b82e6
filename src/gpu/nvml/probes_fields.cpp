// Readings that only nvmlDeviceGetFieldValues has. Each field of one call has a return code of its
// own.
#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "gpu/nvml/probes.h"

namespace gpuyard::nvml {
namespace {

struct Field {
  Metric metric;
  unsigned id;
  unsigned scope = 0;
  std::int64_t factor = 1;  // to the row's native unit
};

// Returns nothing for a type that none of our fields has.
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

void record_field(const Field& field, const FieldValue& value, Recorder& record) {
  if (value.code != kSuccess) return record.missing(field.metric, value.code);
  const auto number = number_of(value);
  const Bounds bounds = row_of(field.metric).bounds;
  // Compared before the multiplication, which may overflow.
  if (!number || is_no_value(*number) || *number > bounds.most / field.factor ||
      *number < bounds.least / field.factor) {
    return record.implausible(field.metric);
  }
  record.value(field.metric, *number * field.factor);
}

template <std::size_t Count>
void read_fields(const Api& api, DeviceHandle device, const std::array<Field, Count>& fields,
                 Recorder record) {
  std::array<FieldValue, Count> values;
  for (std::size_t i = 0; i < Count; ++i) {
    values[i].field_id = fields[i].id;
    values[i].scope_id = fields[i].scope;
    values[i].code = kNoData;  // stays if the driver leaves the field out
  }
  const auto call = [&] {
    const ReturnCode code = api.field_values(device, static_cast<int>(Count), values.data());
    if (code != kSuccess) return code;
    // A library that is older than this field answers that its number is an invalid argument.
    for (FieldValue& value : values) {
      if (value.field_id == kFieldRecoveryAction && value.code == kInvalidArgument)
        value.code = kNotSupported;
    }
    const bool all_unsupported = std::ranges::all_of(
        values, [](const FieldValue& value) { return value.code == kNotSupported; });
    return all_unsupported ? kNotSupported : kSuccess;
  };
  std::array<Metric, Count> rows;
  std::ranges::transform(fields, rows.begin(), &Field::metric);
  if (!record.try_query(rows, call)) return;
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
  if (!ids.is_known()) return record.missing(Probe::throttle_times, kNotSupported);
  const std::array fields = {Field{Metric::throttle_time_sw_thermal, ids.sw_thermal},
                             Field{Metric::throttle_time_hw_thermal, ids.hw_thermal},
                             Field{Metric::throttle_time_power_brake, ids.power_brake}};
  read_fields(api, device, fields, record);
}

void read_recovery_action(const Api& api, DeviceHandle device, Recorder record) {
  constexpr std::array kFields = {Field{Metric::recovery_action, kFieldRecoveryAction}};
  read_fields(api, device, kFields, record);
}

void read_nvlink_traffic(const Api& api, DeviceHandle device, Recorder record) {
  constexpr unsigned kAllLinks = ~0U;
  constexpr std::int64_t kKibibyte = 1024;
  constexpr std::array kFields = {
      Field{Metric::nvlink_tx, kFieldNvlinkDataTx, kAllLinks, kKibibyte},
      Field{Metric::nvlink_rx, kFieldNvlinkDataRx, kAllLinks, kKibibyte}};
  read_fields(api, device, kFields, record);
}

// ECC counters, remapped rows, retired pages.
namespace {

struct Counter {
  Metric total;
  Metric by_location;
  unsigned error;
  unsigned counter;
};
constexpr std::array kCounters = {
    Counter{Metric::ecc_corrected_volatile, Metric::ecc_corrected_volatile_at, kEccCorrected,
            kEccVolatile},
    Counter{Metric::ecc_uncorrected_volatile, Metric::ecc_uncorrected_volatile_at, kEccUncorrected,
            kEccVolatile},
    Counter{Metric::ecc_corrected_aggregate, Metric::ecc_corrected_aggregate_at, kEccCorrected,
            kEccAggregate},
    Counter{Metric::ecc_uncorrected_aggregate, Metric::ecc_uncorrected_aggregate_at,
            kEccUncorrected, kEccAggregate},
};

// Chips differ in the places that count errors: places that do not count are left out.
void read_locations(const Api& api, DeviceHandle device, const Counter& row, Recorder& record) {
  std::array<ReturnCode, kEccLocations> codes{};
  std::array<unsigned long long, kEccLocations> counts{};
  const auto call = [&] {
    bool any = false;
    for (unsigned place = 0; place < kEccLocations; ++place) {
      codes[place] =
          api.memory_error_counter(device, row.error, row.counter, place, &counts[place]);
      any = any || (codes[place] != kNotSupported && codes[place] != kInvalidArgument);
    }
    return any ? kSuccess : kNotSupported;
  };
  if (!record.try_query(row.by_location, call)) return;
  for (std::uint16_t place = 0; place < kEccLocations; ++place) {
    if (codes[place] == kNotSupported || codes[place] == kInvalidArgument) continue;
    record.answer(row.by_location, codes[place], counts[place], place);
  }
}

void read_retired(const Api& api, DeviceHandle device, Metric metric, unsigned cause,
                  Recorder& record) {
  record.query<unsigned>(metric, [&](unsigned* count) {
    *count = 0;
    const ReturnCode code = api.retired_pages(device, cause, count, nullptr);
    return code == kInsufficientSize ? kSuccess : code;  // we want the count, not the addresses
  });
}

}  // namespace

void read_ecc_totals(const Api& api, DeviceHandle device, Recorder record) {
  for (const Counter& row : kCounters) {
    record.query<unsigned long long>(row.total, [&](unsigned long long* count) {
      return api.total_ecc_errors(device, row.error, row.counter, count);
    });
  }
}

void read_ecc_locations(const Api& api, DeviceHandle device, Recorder record) {
  for (const Counter& row : kCounters) read_locations(api, device, row, record);
}

void read_row_remaps(const Api& api, DeviceHandle device, Recorder record) {
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned pending = 0;
  unsigned failure = 0;
  const auto call = [&] {
    return api.remapped_rows(device, &corrected, &uncorrected, &pending, &failure);
  };
  if (!record.try_query(row_of(Probe::row_remaps).fills, call)) return;
  record.value(Metric::rows_remapped_corrected, corrected);
  record.value(Metric::rows_remapped_uncorrected, uncorrected);
  record.value(Metric::row_remap_pending, pending != 0 ? 1 : 0);
  record.value(Metric::row_remap_failure, failure != 0 ? 1 : 0);
}

void read_retired_pages(const Api& api, DeviceHandle device, Recorder record) {
  read_retired(api, device, Metric::retired_pages_single_bit, kRetiredSingleBit, record);
  read_retired(api, device, Metric::retired_pages_double_bit, kRetiredDoubleBit, record);
  record.query(Metric::retired_pages_pending, api.retired_pages_pending, device);
}

}  // namespace gpuyard::nvml
