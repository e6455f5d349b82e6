// Finds why each GPU is slow, from the readings of the last minute. Pure: the time comes with each
// snapshot. Knows no lease and no /proc: the caller passes their facts.
//
// Meaning of the driver's words: docs/metrics.md, throttle_reasons. The thresholds of `starved` and
// `waiting` are inferred from reports of users and were not yet checked on hardware.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "core/bottleneck/reading_window.h"
#include "gpu/device/bottleneck.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::bottleneck {

struct BottleneckThresholds {
  // Heat, brake and power limit are named from this share of the last minute on.
  std::int64_t min_share_percent = 10;
  // A GPU in use below this utilisation may be starved.
  std::int64_t starved_below_percent = 40;
  // A GPU that is always busy with no more than this share of its power limit waits.
  std::int64_t waiting_power_percent = 35;
  // A leased GPU without use for so many seconds is idle.
  std::int64_t idle_after_s = 60;
  std::int64_t memory_full_percent = 98;
};

// The facts of a GPU from leases and /proc; empty: not known.
struct ExternalFacts {
  std::optional<bool> leased = {};
  // The most CPU that one of its processes uses, in percent of a core; 0 without processes.
  std::optional<double> cpu_percent = {};
};

class BottleneckDetector {
 public:
  explicit BottleneckDetector(BottleneckThresholds thresholds = {}) : thresholds_(thresholds) {}

  // Adds the readings of a snapshot, and fills Bottleneck of each of its GPUs.
  void detect(Snapshot&, const std::function<ExternalFacts(const DeviceState&)>&);

 private:
  class Classifier;

  BottleneckThresholds thresholds_;
  std::map<DeviceId, ReadingWindow> windows_;
};

}  // namespace gpuyard::bottleneck
