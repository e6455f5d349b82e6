// Keeps the alerts that a training has now and the answers to them, and decides what the training
// should do. Pure: knows no thread, no clock and no driver.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

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

}  // namespace gpuyard::library
