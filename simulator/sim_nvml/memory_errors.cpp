// The ECC mode, and the memory errors found.
#include <numeric>

#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;
using sim::MemoryRepair;

constexpr unsigned kOn = 1;

bool is_counter(unsigned error, unsigned counter) {
  return error <= kEccUncorrected && counter <= kEccAggregate;
}

// `error` and `counter` must be valid.
const sim::EccCounts& counts_of(const sim::GpuRecord& record, unsigned error, unsigned counter) {
  if (counter == kEccVolatile) {
    return error == kEccCorrected ? record.ecc_volatile_corrected : record.ecc_volatile_uncorrected;
  }
  return error == kEccCorrected ? record.ecc_aggregate_corrected : record.ecc_aggregate_uncorrected;
}

std::uint64_t at(const sim::EccCounts& counts, sim::EccLocation location) {
  return counts[static_cast<std::size_t>(location)];
}

// With ECC off a GPU counts no errors, and answers "not supported".
bool can_count_errors(const Device& device) {
  return device.model.has_ecc && device.record.ecc_mode == kOn;
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetEccMode(DeviceHandle handle, unsigned* current, unsigned* pending) {
  return read_two(Call::modes, handle, current, pending, [](const Device& d) {
    return optional_if(d.model.has_ecc, std::pair(d.record.ecc_mode, d.record.ecc_mode_pending));
  });
}

SIM_NVML_ENTRY nvmlDeviceGetDefaultEccMode(DeviceHandle handle, unsigned* mode) {
  return read_one(Call::modes, handle, mode,
                  [](const Device& d) { return optional_if(d.model.has_ecc, kOn); });
}

SIM_NVML_ENTRY nvmlDeviceGetTotalEccErrors(DeviceHandle handle, unsigned error, unsigned counter,
                                           unsigned long long* out) {
  return read_one(
      Call::ecc_errors, handle, is_counter(error, counter) ? out : nullptr, [&](const Device& d) {
        const sim::EccCounts& counts = counts_of(d.record, error, counter);
        return optional_if(can_count_errors(d),
                           std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
      });
}

SIM_NVML_ENTRY nvmlDeviceGetMemoryErrorCounter(DeviceHandle handle, unsigned error,
                                               unsigned counter, unsigned location,
                                               unsigned long long* out) {
  const bool known = is_counter(error, counter) && location < kEccLocations;
  return read_one(Call::ecc_errors, handle, known ? out : nullptr, [&](const Device& d) {
    return optional_if(can_count_errors(d), counts_of(d.record, error, counter)[location]);
  });
}

SIM_NVML_ENTRY nvmlDeviceGetDetailedEccErrors(DeviceHandle handle, unsigned error, unsigned counter,
                                              EccCounts* out) {
  return on_device(Call::ecc_errors, handle, out != nullptr && is_counter(error, counter),
                   [&](const Device& device) {
                     if (!can_count_errors(device)) return kNotSupported;
                     const sim::EccCounts& counts = counts_of(device.record, error, counter);
                     *out = {.l1_cache = at(counts, sim::EccLocation::l1_cache),
                             .l2_cache = at(counts, sim::EccLocation::l2_cache),
                             .device_memory = at(counts, sim::EccLocation::device_memory),
                             .register_file = at(counts, sim::EccLocation::register_file)};
                     return kSuccess;
                   });
}
