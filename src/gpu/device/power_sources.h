// Compares the two sources of a GPU's power: the power reading, and the growth of its energy
// counter. Pure state: it is given readings and neither queries nor waits.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/clock.h"
#include "gpu/device/reading.h"

namespace gpuyard {

// The sources contradict each other if one says at least kMinRatio times as much as the other and
// at least kMinDifferenceMw more, in the mean of kMeanWindow, and goes on so for
// kMinContradictionDuration. They agree again after they have agreed for as long.
//
// On GPUs before Ampere, and on GA100, the power reading is the power of one moment: read once a
// second, it may miss every burst, or hit every one. Bursts explain neither a reading that is too
// low while the GPU is always busy, nor one that is too high while it is always idle, nor a counter
// that stands still: only these are contradictions there.
class PowerSources {
 public:
  static constexpr std::int64_t kMinRatio = 3;
  static constexpr std::int64_t kMinDifferenceMw = 100'000;
  static constexpr Duration kMeanWindow = std::chrono::seconds(5);
  static constexpr Duration kMinContradictionDuration = std::chrono::seconds(10);
  // A contradiction is dropped if the sources could not be compared for this long.
  static constexpr Duration kContradictionRetention = std::chrono::seconds(60);

  void update(const Sample&);

  // Describes the contradiction; "" while there is none.
  const std::string& contradiction() const { return contradiction_; }

 private:
  struct Point {
    TimePoint taken_at;
    std::int64_t counter_mj;
    std::int64_t power_mw;
    std::optional<std::int64_t> utilization;  // percent
  };
  // Mean powers over the points, mW.
  struct Means {
    std::int64_t counted;
    std::int64_t read;

    bool has_contradiction() const;
    std::string text() const;
  };

  void add(const Point&);
  std::optional<Means> means() const;
  bool is_explained_by_bursts(const Means&) const;
  void evaluate(const Means&, TimePoint now);

  std::deque<Point> points_;
  std::optional<std::int64_t> utilization_;
  bool averaged_ = false;                   // the power reading is an average over about a second
  std::optional<TimePoint> changed_since_;  // since when the means say other than `contradiction_`
  std::string contradiction_;
};

}  // namespace gpuyard
