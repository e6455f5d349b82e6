// A snapshot as Prometheus's text format, version 0.0.4. Families and help come from the catalog.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/result.h"
#include "device/snapshot.h"

namespace gpuyard::metrics {

// The most series that one GPU can cost a Prometheus server: one that reports everything, with as
// many fans, links, places of memory errors and different Xids as there can be.
inline constexpr int kMostSeriesOfAGpu = 206;

// Who has which GPU, as numbers: never whose they are.
struct LeaseFigures {
  std::vector<std::pair<std::uint32_t, bool>> gpus = {};  // by index, whether it is leased
  std::size_t held = 0;
  std::size_t waiting = 0;
  std::uint64_t grants = 0;
};

// Of the daemon itself, beside the GPUs.
struct Process {
  std::string version;
  const Histogram* loop_lag = nullptr;   // nothing: not measured
  const LeaseFigures* leases = nullptr;  // nothing: no GPU is handed out here
};

// A prefix is what Prometheus allows in a metric name: [a-zA-Z_:][a-zA-Z0-9_:]*.
Result<void> check_prefix(std::string_view prefix);

// "<prefix>_gpu_temperature_celsius{device="0"} 40". A missing reading has no series: never 0. All
// series of readings carry `device`, the index, and beside it only which fan, link, place or
// throttle reason; <prefix>_gpu_info joins the identity to it.
std::string render(const Snapshot&, const Process&, std::string_view prefix);

}  // namespace gpuyard::metrics
