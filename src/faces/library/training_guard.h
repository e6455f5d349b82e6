// Keeps the alerts that a training has now and the answers to them, and decides what the training
// should do. Pure: knows no thread, no clock and no driver.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/device/gpu_snapshot.h"
#include "gpu/device/snapshot.h"
#include "gpuyard/andon.h"
#include "gpuyard/training.h"

namespace gpuyard::library {

class TrainingGuard {
 public:
  explicit TrainingGuard(const AndonThresholds& thresholds) : andon_(thresholds) {}

  // Takes one sample. Returns the alerts that are new with it, or worse by a level.
  std::vector<Alert> evaluate(std::vector<GpuMetrics>, std::chrono::nanoseconds now);
  // Records what to do about an alert; the last answer counts.
  void record_action(const Alert&, TrainingAction);

  void pause() { paused_ = true; }
  void resume();
  void stop() { stopped_ = true; }

  TrainingAction action() const;
  const std::optional<Alert>& cause() const { return cause_; }

 private:
  struct ActiveAlert {
    Alert alert;
    AlertLevel notified_level;
    bool pauses = false;
  };
  using Key = std::pair<std::uint32_t, std::size_t>;  // the GPU, and which kind of alert

  void drop_resolved(const std::vector<Alert>& now, const std::vector<GpuMetrics>&);

  Andon andon_;
  std::map<Key, ActiveAlert> active_;
  bool paused_ = false;
  bool stopped_ = false;
  std::optional<Alert> cause_;
};

// Sums up the samples of a training. Pure.

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
