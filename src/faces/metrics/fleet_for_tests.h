// GPUs that report everything, with the largest numbers of fans, links, places and Xids.
#pragma once

#include <sstream>
#include <string>

#include "faces/metrics/prometheus.h"
#include "gpu/device/catalog.h"

namespace gpuyard::metrics {

// The most series that one GPU can cost a Prometheus server: for a GPU that reports everything,
// with the largest numbers of fans, links, places of memory errors and different Xids. Of these,
// the ones that are readings; and the most readings that DCGM's dialect has names for.
inline int max_readings_per_gpu() {
  int most = 0;
  for (const MetricRow& row : catalog()) {
    if (row.subject != MetricSubject::device || row.prometheus.empty()) continue;
    most += row.kind == MetricKind::flags ? static_cast<int>(row.words.size())
                                          : extent_of(row.dimension);
  }
  return most;
}
inline int max_series_per_gpu() {
  constexpr int kOtherSeries = 40;  // identity, health, lease and Xids
  return max_readings_per_gpu() + kOtherSeries;
}
inline constexpr int kMaxDcgmSeriesPerGpu = 67;
inline constexpr int kMaxMinimalSeriesPerGpu = 20;

inline DeviceState gpu_with_everything(std::uint32_t index) {
  DeviceState device;
  device.info = {"GPU-" + std::to_string(index), index, "GPU-x", "0000:01:00.0", "GPU", {}};
  for (const MetricRow& row : catalog()) {
    if (row.subject != MetricSubject::device || row.kind == MetricKind::text) continue;
    for (std::uint16_t element = 0; element < extent_of(row.dimension); ++element) {
      device.sample.set({row.metric, element, {}, std::int64_t{1}});
    }
  }
  device.health.verdict = Health::healthy;
  XidCounter xids;
  for (std::uint32_t xid = 1; xid <= 999; ++xid) xids.record("GPU", xid, {});
  device.xid_errors = xids.counts_of("GPU");
  return device;
}

inline Snapshot fleet_of(std::uint32_t gpus) {
  Snapshot snapshot;
  snapshot.driver.initialised = true;
  snapshot.driver.info.driver_version = "535.104.05";
  for (std::uint32_t i = 0; i < gpus; ++i) snapshot.devices.push_back(gpu_with_everything(i));
  return snapshot;
}

// The lines of a text that are series, in the order of the text.
inline std::string samples_in(const std::string& text) {
  std::string samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('#')) samples += line + "\n";
  }
  return samples;
}

inline bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace gpuyard::metrics
