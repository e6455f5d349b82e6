// Sums up the samples of a training. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "gpu/device/gpu_snapshot.h"
#include "gpu/device/snapshot.h"
#include "gpuyard/training.h"

namespace gpuyard::library {

// The probes of a sample.
inline constexpr ProbeSet kTrainingProbes = kMetricsProbes | ProbeSet{Probe::throttle_times};

class TrainingStats {
 public:
  // Takes samples in any order: several threads read at the same time.
  void add(const Snapshot&);
  // Resets the sums; counters continue from their values.
  void reset();

  std::uint64_t samples() const { return samples_; }
  // Returns the GPUs by index, without joules.
  std::vector<TrainingGpu> gpus() const;

 private:
  static constexpr std::size_t kThrottleReasons = 3;
  // The growth of one of the driver's counters, in nanoseconds.
  struct Growth {
    std::optional<std::int64_t> last;
    TimePoint taken;         // when `last` was read
    std::int64_t grown = 0;  // since it started over
    bool known = false;      // read since then

    void read(const Reading*);
    void reset();
  };
  struct Gpu {
    std::optional<std::uint64_t> peak_memory;
    std::optional<double> highest_celsius;
    double utilization = 0;
    std::uint64_t utilizations = 0;
    std::array<Growth, kThrottleReasons> throttled;
    bool seen = false;  // since it started over

    void add(const DeviceState&);
    TrainingGpu report(std::uint32_t index) const;
  };

  std::map<std::uint32_t, Gpu> gpus_;  // by index
  std::uint64_t samples_ = 0;
};

}  // namespace gpuyard::library
