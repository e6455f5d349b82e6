// A snapshot as Prometheus's text format, version 0.0.4. Families and help come from the catalog.
#pragma once

#include <string>
#include <string_view>

#include "base/histogram.h"
#include "base/result.h"
#include "device/snapshot.h"

namespace gpuyard::metrics {

// The most series that one GPU can cost a Prometheus server: one that reports everything, with as
// many fans, links, places of memory errors and different Xids as there can be.
inline constexpr int kMostSeriesOfAGpu = 205;

// Of the daemon itself, beside the GPUs.
struct Process {
  std::string version;
  const Histogram* loop_lag = nullptr;  // nothing: not measured
};

// A prefix is what Prometheus allows in a metric name: [a-zA-Z_:][a-zA-Z0-9_:]*.
Result<void> check_prefix(std::string_view prefix);

// "<prefix>_gpu_temperature_celsius{device="0"} 40". A missing reading has no series: never 0. All
// series of readings carry `device`, the index, and beside it only which fan, link, place or
// throttle reason; <prefix>_gpu_info joins the identity to it.
std::string render(const Snapshot&, const Process&, std::string_view prefix);

}  // namespace gpuyard::metrics
