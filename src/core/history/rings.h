// The history in memory of all GPUs, fed with each snapshot. Pure state, on one thread. What it may
// take of the heap has a limit for each GPU, whatever the data are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/snapshot.h"
#include "history/series.h"

namespace gpuyard::history {

// A day of an H100 takes a seventh of it (docs/performance.md).
inline constexpr std::size_t kMaxBytesPerGpu = std::size_t{8} * 1024 * 1024;
// GPUs that were exchanged, and those of simulated worlds, are forgotten after a day, or sooner
// where there are more of them.
inline constexpr std::size_t kMaxGpus = 128;

class Rings {
 public:
  struct Gpu {
    std::vector<Series> series;  // by metric and element
    std::size_t bytes = 0;
    std::int64_t fed_ms = 0;

    const Series* find(Metric, std::uint16_t element) const;
  };

  explicit Rings(std::size_t max_bytes_per_gpu = kMaxBytesPerGpu) : max_bytes_(max_bytes_per_gpu) {}

  // Readings that are newer than the last of their series; a GPU that does not answer adds nothing.
  void feed(const Snapshot&);

  // By UUID; nullptr: nothing is known of it.
  const Gpu* find(const std::string& uuid) const;
  const std::map<std::string, Gpu>& gpus() const { return gpus_; }
  std::size_t bytes() const;

 private:
  void feed(Gpu&, const Sample&, std::int64_t now_ms);
  void hold_limit(Gpu&) const;
  void forget(std::int64_t now_ms);

  std::size_t max_bytes_;
  std::map<std::string, Gpu> gpus_;
  std::int64_t swept_ms_ = INT64_MIN;
};

}  // namespace gpuyard::history
