// A GPU's memory, and BAR1, the window through which the host sees it.
#include <algorithm>
#include <numeric>
#include <ranges>

#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;
using sim::MemoryRepair;

constexpr unsigned kMemoryV2Version = MemoryV2{}.version;
constexpr unsigned kMemoryV2Bare = 2;  // one real client passes only the number
constexpr unsigned kHopper = 9;        // nvmlDeviceArchitecture_t

// The bytes that the driver always maps for itself.
constexpr unsigned long long kBar1InUse = 2ULL << 20;

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetMemoryInfo(DeviceHandle handle, MemoryV1* out) {
  return on_device(Call::memory_info, handle, out != nullptr, [&](const Device& device) {
    out->total = device.model.memory_total_bytes;
    out->used = device.model.memory_reserved_bytes + device.record.memory_used_bytes;
    out->free = out->total - out->used;
    return kSuccess;
  });
}

// An unknown version is a mismatch and never "not supported": nvtop would then show host memory.
SIM_NVML_ENTRY nvmlDeviceGetMemoryInfo_v2(DeviceHandle handle, MemoryV2* out) {
  return on_device(Call::memory_info, handle, out != nullptr, [&](const Device& device) {
    if (out->version != kMemoryV2Version && out->version != kMemoryV2Bare) {
      return kArgumentVersionMismatch;
    }
    out->total = device.model.memory_total_bytes;
    out->reserved = device.model.memory_reserved_bytes;
    out->used = device.record.memory_used_bytes;
    out->free = out->total - out->reserved - out->used;
    return kSuccess;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetBAR1MemoryInfo(DeviceHandle handle, Bar1Memory* out) {
  return on_device(Call::bar1_memory, handle, out != nullptr, [&](const Device& device) {
    out->total = device.model.bar1_bytes;
    out->used = kBar1InUse;
    out->free = out->total - out->used;
    return kSuccess;
  });
}

// Confidential computing is off, so all of the memory is unprotected. Clients that find this symbol
// expect nvmlDeviceGetRunningProcessDetailList too: a library has both or neither.
SIM_NVML_ENTRY nvmlDeviceGetConfComputeMemSizeInfo(DeviceHandle handle, ConfComputeMemory* out) {
  return on_device(Call::memory_info, handle, out != nullptr, [&](const Device& device) {
    if (device.model.architecture < kHopper) return kNotSupported;
    *out = {.protected_kib = 0, .unprotected_kib = device.model.memory_total_bytes / 1024};
    return kSuccess;
  });
}

// The ECC mode, and the memory errors found.
namespace {

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

// Repairs of bad memory: retired pages before Ampere, remapped rows since.
namespace {

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
