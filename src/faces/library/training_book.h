// What the samples of a training add up to. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "device/gpu_metrics.h"
#include "device/snapshot.h"
#include "gpuyard/training.h"

namespace gpuyard::library {

// What a sample holds.
inline constexpr ProbeSet kTrainingProbes = kMetricsProbes | ProbeSet{Probe::throttle_times};

class TrainingBook {
 public:
  // In whatever order they were read: several threads read at the same time.
  void add(const Snapshot&);
  // The sums begin anew; counters go on from where they are.
  void start_over();

  std::uint64_t samples() const { return samples_; }
  // By index. Joules are not in them.
  std::vector<TrainingGpu> gpus() const;

 private:
  static constexpr std::size_t kReasons = 3;
  // A counter of the driver's, in nanoseconds.
  struct Growth {
    std::optional<std::int64_t> last;
    TimePoint taken;         // of the last
    std::int64_t grown = 0;  // since it started over
    bool known = false;      // read since then

    void read(const Reading*);
    void start_over();
  };
  struct Gpu {
    std::optional<std::uint64_t> peak_memory;
    std::optional<double> highest_celsius;
    double utilization = 0;
    std::uint64_t utilizations = 0;
    std::array<Growth, kReasons> throttled;
    bool seen = false;  // since it started over

    void add(const DeviceState&);
    TrainingGpu report(std::uint32_t index) const;
  };

  std::map<std::uint32_t, Gpu> gpus_;  // by index
  std::uint64_t samples_ = 0;
};

}  // namespace gpuyard::library
