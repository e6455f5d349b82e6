// Which alerts a training has now, what it was told to do about them, and so what it should do.
// Pure: knows no thread, no clock and no driver.
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

class TrainingWatch {
 public:
  explicit TrainingWatch(const AndonThresholds& thresholds) : andon_(thresholds) {}

  // One sample. Answers the alerts that are new with it, or worse by a level.
  std::vector<Alert> look(std::vector<GpuMetrics>, std::chrono::nanoseconds now);
  // What is to be done about one of them; the last answer counts.
  void answer(const Alert&, TrainingAction);

  void pause() { held_ = true; }
  void resume();
  void stop() { stopped_ = true; }

  TrainingAction action() const;
  const std::optional<Alert>& cause() const { return cause_; }

 private:
  struct Active {
    Alert alert;
    AlertLevel told;
    bool pauses = false;
  };
  using Key = std::pair<std::uint32_t, std::size_t>;  // the GPU, and which kind of alert

  void forget_what_is_over(const std::vector<Alert>& now, const std::vector<GpuMetrics>&);

  Andon andon_;
  std::map<Key, Active> active_;
  bool held_ = false;
  bool stopped_ = false;
  std::optional<Alert> cause_;
};

}  // namespace gpuyard::library
