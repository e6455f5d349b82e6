// A snapshot as Prometheus reads it. Families and help of readings come from the catalog.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "device/snapshot.h"
#include "metrics/figures.h"
#include "metrics/text.h"

namespace gpuyard::metrics {

// The most series that one GPU can cost a Prometheus server: one that reports everything, with as
// many fans, links, places of memory errors and different Xids as there can be.
inline constexpr int kMostSeriesOfAGpu = 207;

// So many of them are readings, which DCGM's dialect tells by so many series of its own.
inline constexpr int kMostReadingsOfAGpu = 167;
inline constexpr int kMostDcgmSeriesOfAGpu = 66;

// And each alert that fires on it costs two more.
inline constexpr int kSeriesOfAnAlert = 2;

// Whose names readings have. What is no reading - identity, health, Xids, leases, alerts, the
// daemon itself - has our own in each.
enum class Dialect {
  gpuyard,
  dcgm,  // as dcgm-exporter 4.8; what that has no name for is not there
  both,
};

// A prefix is what Prometheus allows in a metric name: [a-zA-Z_:][a-zA-Z0-9_:]*.
Result<void> check_prefix(std::string_view prefix);

// "<prefix>_gpu_temperature_celsius{device="0"} 40". A missing reading has no series: never 0. All
// series of readings carry `device`, the index, and beside it only which fan, link, place or
// throttle reason; <prefix>_gpu_info joins the identity to it. DCGM's have that exporter's labels.
std::string render(const Snapshot&, const Process&, std::string_view prefix,
                   Format format = Format::text, Dialect dialect = Dialect::gpuyard);

// The rows of the catalog as families of series, under our own names or DCGM's.

// Readings that a scraper may take for those of now: none of a GPU that does not answer.
std::span<const Reading> current_readings(const DeviceState&, Metric);

// "gpu_temperature_celsius{device="0"}", in base units.
void put_readings(Text&, const Snapshot&);

// "DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-...",...}", with the names, labels and units of
// dcgm-exporter 4.8. `text` has no stem.
void put_dcgm_readings(Text& text, const Snapshot&, const std::string& hostname);

}  // namespace gpuyard::metrics
