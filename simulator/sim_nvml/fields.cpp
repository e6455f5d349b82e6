// nvmlDeviceGetFieldValues: one table, a row per field id. Each value has its own return code, so
// that one missing sensor does not affect the other values.
//
// Ids are those of the simulated library's version. The throttling times by single cause (251-253,
// later 269-271) came with newer versions, so this library answers that they are unknown, as the
// real one would.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::MemoryRepair;

using Number = std::optional<std::uint64_t>;  // empty: this model does not have it

struct Field {
  unsigned id;
  Number (*read)(const Device&, unsigned scope);
  unsigned value_type = kValueUnsigned;
};

constexpr int kMaxFieldValues = 1024;   // of one call; NVML knows some 270 ids
constexpr unsigned kLastKnownId = 199;  // of the simulated library
// The first branch whose drivers report a recovery action. The only field that follows the version
// of the simulated driver, because a rule depends on it.
constexpr int kRecoveryActionBranch = 570;

std::uint64_t sum(const sim::EccCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

Number ecc(const Device& d, const sim::EccCounts& counts) {
  return optional_if(d.model.has_ecc && d.record.ecc_mode != 0, sum(counts));
}

Number pages(const Device& d, std::uint64_t count) {
  return optional_if(d.model.memory_repair == MemoryRepair::retired_pages, count);
}

Number rows(const Device& d, std::uint64_t count) {
  return optional_if(d.model.memory_repair == MemoryRepair::remapped_rows, count);
}

Number links(const Device& d, std::uint64_t value) {
  return optional_if(d.model.nvlink.links != 0, value);
}

// The bytes of one link, or of all links together, in KiB.
Number link_kib(const Device& d, const std::array<std::uint64_t, sim::kMaxNvLinks>& bytes,
                unsigned scope) {
  if (scope == kScopeAllLinks) {
    return links(d, std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}) / 1024);
  }
  return optional_if(scope < d.model.nvlink.links,
                     bytes[std::min<std::size_t>(scope, bytes.size() - 1)] / 1024);
}

Number recovery_action(const Device& d) {
  return optional_if(branch_of(d.driver.version()) >= kRecoveryActionBranch,
                     static_cast<std::uint64_t>(d.record.fault.recovery_action));
}

Number of_gpu(unsigned scope, std::uint64_t value) {
  return optional_if(scope == kScopeGpu, value);
}

// Makes a field's reader of one expression of a device `d` and a scope.
#define SIM_NVML_FIELD(expression) \
  [](const Device& d, [[maybe_unused]] unsigned scope) -> Number { return expression; }

constexpr std::array kFields{
    Field{kFieldEccMode, SIM_NVML_FIELD(optional_if(d.model.has_ecc, d.record.ecc_mode))},
    Field{kFieldEccModePending,
          SIM_NVML_FIELD(optional_if(d.model.has_ecc, d.record.ecc_mode_pending))},
    Field{kFieldEccVolatileCorrected, SIM_NVML_FIELD(ecc(d, d.record.ecc_volatile_corrected)),
          kValueUnsignedLongLong},
    Field{kFieldEccVolatileUncorrected, SIM_NVML_FIELD(ecc(d, d.record.ecc_volatile_uncorrected)),
          kValueUnsignedLongLong},
    Field{kFieldEccAggregateCorrected, SIM_NVML_FIELD(ecc(d, d.record.ecc_aggregate_corrected)),
          kValueUnsignedLongLong},
    Field{kFieldEccAggregateUncorrected, SIM_NVML_FIELD(ecc(d, d.record.ecc_aggregate_uncorrected)),
          kValueUnsignedLongLong},
    Field{kFieldRetiredSingleBit, SIM_NVML_FIELD(pages(d, d.record.retired_pages_single_bit))},
    Field{kFieldRetiredDoubleBit, SIM_NVML_FIELD(pages(d, d.record.retired_pages_double_bit))},
    Field{kFieldRetiredPending, SIM_NVML_FIELD(pages(d, d.record.retired_pages_pending))},
    Field{kFieldViolationPower, SIM_NVML_FIELD(d.record.power_cap_ns), kValueUnsignedLongLong},
    Field{kFieldViolationThermal,
          SIM_NVML_FIELD(d.record.software_thermal_ns + d.record.hardware_thermal_ns),
          kValueUnsignedLongLong},
    Field{kFieldMemoryTemperature,
          SIM_NVML_FIELD(
              optional_if(d.model.has_memory_temperature, d.record.memory_temperature_celsius))},
    Field{kFieldTotalEnergy, SIM_NVML_FIELD(d.record.energy_mj), kValueUnsignedLongLong},
    Field{kFieldNvlinkSpeedCommon, SIM_NVML_FIELD(links(d, d.model.nvlink.link_mb_per_s))},
    Field{kFieldNvlinkCount, SIM_NVML_FIELD(links(d, d.model.nvlink.links))},
    Field{kFieldPcieReplays, SIM_NVML_FIELD(d.record.pcie_replays)},
    Field{kFieldNvlinkDataTx, SIM_NVML_FIELD(link_kib(d, d.record.nvlink_tx_bytes, scope)),
          kValueUnsignedLongLong},
    Field{kFieldNvlinkDataRx, SIM_NVML_FIELD(link_kib(d, d.record.nvlink_rx_bytes, scope)),
          kValueUnsignedLongLong},
    Field{kFieldRemappedCorrected, SIM_NVML_FIELD(rows(d, d.record.rows.corrected_rows))},
    Field{kFieldRemappedUncorrected, SIM_NVML_FIELD(rows(d, d.record.rows.uncorrected_rows))},
    Field{kFieldRemappedPending, SIM_NVML_FIELD(rows(d, d.record.rows.pending))},
    Field{kFieldRemappedFailure, SIM_NVML_FIELD(rows(d, d.record.rows.failed))},
    Field{kFieldNvlinkSpeed,
          SIM_NVML_FIELD(optional_if(scope < d.model.nvlink.links, d.model.nvlink.link_mb_per_s))},
    Field{kFieldPowerAverage, SIM_NVML_FIELD(of_gpu(scope, d.record.power_average_mw))},
    Field{kFieldPowerInstant, SIM_NVML_FIELD(of_gpu(scope, d.record.power_mw))},
    Field{kFieldPowerLimitMin, SIM_NVML_FIELD(of_gpu(scope, d.model.power_limit_min_mw))},
    Field{kFieldPowerLimitMax, SIM_NVML_FIELD(of_gpu(scope, d.model.power_limit_max_mw))},
    Field{kFieldPowerLimitDefault, SIM_NVML_FIELD(of_gpu(scope, d.model.power_limit_default_mw))},
    Field{kFieldPowerLimitCurrent, SIM_NVML_FIELD(of_gpu(scope, d.record.power_limit_mw))},
    Field{kFieldPowerLimitRequested, SIM_NVML_FIELD(of_gpu(scope, d.record.power_limit_mw))},
    Field{kFieldRecoveryAction, SIM_NVML_FIELD(recovery_action(d))},
};

// Stores the value in the first bytes of the union, by its type.
void store(const Field& field, std::uint64_t number, FieldValue& out) {
  out.value_type = field.value_type;
  out.value = 0;
  if (field.value_type == kValueUnsigned) {
    const auto small = static_cast<unsigned>(number);
    std::memcpy(&out.value, &small, sizeof small);
  } else {
    out.value = number;
  }
}

void answer(const Device& device, FieldValue& value) {
  value.timestamp_us = static_cast<long long>(wall_clock_us());
  value.latency_us = 0;
  const auto field = std::ranges::find(kFields, value.field_id, &Field::id);
  if (field == kFields.end()) {
    const bool known = value.field_id != 0 && value.field_id <= kLastKnownId;
    value.code = known ? kNotSupported : kInvalidArgument;
    return;
  }
  const Number number = field->read(device, value.scope_id);
  value.code = number ? kSuccess : kNotSupported;
  if (number) store(*field, *number, value);
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetFieldValues(DeviceHandle handle, int count, FieldValue* values) {
  const bool given = values != nullptr && count > 0 && count <= kMaxFieldValues;
  return on_device(sim::Call::field_values, handle, given, [&](const Device& device) {
    for (int i = 0; i < count; ++i) answer(device, values[i]);
    return kSuccess;
  });
}
