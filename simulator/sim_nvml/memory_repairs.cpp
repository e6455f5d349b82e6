// Repairs of bad memory: retired pages before Ampere, remapped rows since.
#include <ranges>

#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;
using sim::MemoryRepair;

bool can_retire_pages(const Device& device) {
  return device.model.memory_repair == MemoryRepair::retired_pages;
}

bool can_remap_rows(const Device& device) {
  return device.model.memory_repair == MemoryRepair::remapped_rows;
}

// The world only counts pages: the n-th page of a cause always gets this address.
unsigned long long address_of(unsigned cause, unsigned page) {
  constexpr unsigned long long kPage = 4096;
  constexpr unsigned long long kApart = 0x9E3779B1;
  return (page * kApart + cause * 0x51ED27ULL) % (1ULL << 21) * kPage;
}

// `timestamps` may be null: the older layout has none.
ReturnCode list_pages(DeviceHandle handle, unsigned cause, unsigned* count,
                      unsigned long long* addresses, unsigned long long* timestamps,
                      bool arguments_given) {
  const bool given = arguments_given && cause <= kRetiredDoubleBit;
  return on_device(Call::retired_pages, handle, given, [&](const Device& device) {
    if (!can_retire_pages(device)) return kNotSupported;
    const unsigned pages = cause == kRetiredSingleBit ? device.record.retired_pages_single_bit
                                                      : device.record.retired_pages_double_bit;
    const ReturnCode code = put_list(std::views::iota(0U, pages), count, addresses,
                                     [&](unsigned page) { return address_of(cause, page); });
    // The simulated driver does not record the time.
    if (code == kSuccess && timestamps != nullptr) std::fill_n(timestamps, pages, 0ULL);
    return code;
  });
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetRetiredPages(DeviceHandle handle, unsigned cause, unsigned* count,
                                         unsigned long long* addresses) {
  return list_pages(handle, cause, count, addresses, nullptr, is_list(count, addresses));
}

SIM_NVML_ENTRY nvmlDeviceGetRetiredPages_v2(DeviceHandle handle, unsigned cause, unsigned* count,
                                            unsigned long long* addresses,
                                            unsigned long long* timestamps) {
  return list_pages(handle, cause, count, addresses, timestamps,
                    is_list(count, addresses) && is_list(count, timestamps));
}

SIM_NVML_ENTRY nvmlDeviceGetRetiredPagesPendingStatus(DeviceHandle handle, unsigned* pending) {
  return read_one(Call::retired_pages, handle, pending, [](const Device& d) {
    return optional_if(can_retire_pages(d), d.record.retired_pages_pending);
  });
}

SIM_NVML_ENTRY nvmlDeviceGetRemappedRows(DeviceHandle handle, unsigned* corrected,
                                         unsigned* uncorrected, unsigned* pending,
                                         unsigned* failed) {
  const bool given =
      corrected != nullptr && uncorrected != nullptr && pending != nullptr && failed != nullptr;
  return on_device(Call::remapped_rows, handle, given, [&](const Device& device) {
    if (!can_remap_rows(device)) return kNotSupported;
    const sim::RowRemapping& rows = device.record.rows;
    *corrected = rows.corrected_rows;
    *uncorrected = rows.uncorrected_rows;
    *pending = rows.pending;
    *failed = rows.failed;
    return kSuccess;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetRowRemapperHistogram(DeviceHandle handle, RowRemapperHistogram* out) {
  return on_device(Call::remapped_rows, handle, out != nullptr, [&](const Device& device) {
    if (!can_remap_rows(device)) return kNotSupported;
    const sim::RowRemapping& rows = device.record.rows;
    *out = {.max = rows.banks_max,
            .high = rows.banks_high,
            .partial = rows.banks_partial,
            .low = rows.banks_low,
            .none = rows.banks_none};
    return kSuccess;
  });
}
