// ECC counters, remapped rows, retired pages.
#include <array>

#include "nvml/probes.h"

namespace gpuyard::nvml {
namespace {

struct Counter {
  Metric total;
  Metric by_place;
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

// Which places count errors differs between chips: those that do not are left out.
void read_places(const Api& api, DeviceHandle device, const Counter& row, Recorder& record) {
  std::array<ReturnCode, kEccLocations> codes{};
  std::array<unsigned long long, kEccLocations> counts{};
  const auto ask = [&] {
    bool any = false;
    for (unsigned place = 0; place < kEccLocations; ++place) {
      codes[place] =
          api.memory_error_counter(device, row.error, row.counter, place, &counts[place]);
      any = any || (codes[place] != kNotSupported && codes[place] != kInvalidArgument);
    }
    return any ? kSuccess : kNotSupported;
  };
  if (!record.ask_for(row.by_place, ask)) return;
  for (std::uint16_t place = 0; place < kEccLocations; ++place) {
    if (codes[place] == kSuccess) {
      record.value(row.by_place, counts[place], place);
    } else if (codes[place] != kNotSupported && codes[place] != kInvalidArgument) {
      record.missing(row.by_place, codes[place], place);
    }
  }
}

void read_retired(const Api& api, DeviceHandle device, Metric metric, unsigned cause,
                  Recorder& record) {
  record.one<unsigned>(metric, [&](unsigned* count) {
    *count = 0;
    const ReturnCode code = api.retired_pages(device, cause, count, nullptr);
    return code == kInsufficientSize ? kSuccess : code;  // we want the count, not the addresses
  });
}

}  // namespace

void read_ecc_totals(const Api& api, DeviceHandle device, Recorder record) {
  for (const Counter& row : kCounters) {
    record.one<unsigned long long>(row.total, [&](unsigned long long* count) {
      return api.total_ecc_errors(device, row.error, row.counter, count);
    });
  }
}

void read_ecc_places(const Api& api, DeviceHandle device, Recorder record) {
  for (const Counter& row : kCounters) read_places(api, device, row, record);
}

void read_row_remaps(const Api& api, DeviceHandle device, Recorder record) {
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned pending = 0;
  unsigned failure = 0;
  const auto ask = [&] {
    return api.remapped_rows(device, &corrected, &uncorrected, &pending, &failure);
  };
  if (!record.ask_for(Metric::rows_remapped_corrected, ask)) {
    const Missing why = *record.sample().find(Metric::rows_remapped_corrected)->missing();
    return record.missing(Probe::row_remaps, why);
  }
  record.value(Metric::rows_remapped_corrected, corrected);
  record.value(Metric::rows_remapped_uncorrected, uncorrected);
  record.value(Metric::row_remap_pending, pending != 0 ? 1 : 0);
  record.value(Metric::row_remap_failure, failure != 0 ? 1 : 0);
}

void read_retired_pages(const Api& api, DeviceHandle device, Recorder record) {
  read_retired(api, device, Metric::retired_pages_single_bit, kRetiredSingleBit, record);
  read_retired(api, device, Metric::retired_pages_double_bit, kRetiredDoubleBit, record);
  record.one<unsigned>(Metric::retired_pages_pending, [&](unsigned* pending) {
    return api.retired_pages_pending(device, pending);
  });
}

}  // namespace gpuyard::nvml
