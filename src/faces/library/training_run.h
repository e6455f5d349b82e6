// One training from begin() to end(): its thread, its clock and its sums. TrainingGuard decides;
// TrainingStats sums up.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "faces/library/energy_window.h"
#include "faces/library/monitor.h"
#include "faces/library/training_guard.h"
#include "faces/library/training_stats.h"

namespace gpuyard::library {

struct TrainingOptions {
  Duration interval = std::chrono::seconds(5);
  AndonThresholds thresholds;
  std::vector<std::uint32_t> gpus;  // none: all
  TrainingMonitor::Handler handler;
  bool manual_time = false;
};

// Thread: any.
class TrainingRun : public std::enable_shared_from_this<TrainingRun> {
 public:
  // Without a monitor `why` says what is missing.
  TrainingRun(std::shared_ptr<const Monitor>, std::string why, TrainingOptions);

  // Error: no thread can be started.
  Result<void> begin();
  TrainingAction step();
  TrainingReport epoch_end();
  TrainingReport end();
  bool has_ended() const;

  TrainingAction action() const;
  TrainingAction wait_while_paused(Duration timeout) const;
  std::optional<Alert> cause() const;
  void pause() { update_guard(&TrainingGuard::pause); }
  void resume() { update_guard(&TrainingGuard::resume); }
  void stop() { update_guard(&TrainingGuard::stop); }

  void sample_at(Duration now);

 private:
  static constexpr Duration kEdgeTimeout = std::chrono::milliseconds(250);
  static constexpr Duration kSampleTimeout = std::chrono::seconds(2);
  static constexpr Duration kManualTimeout = std::chrono::seconds(10);

  // The sums so far of an epoch, or of the whole training.
  struct Tally {
    TrainingStats stats;
    Duration began_at{};
    Duration paused{};
    std::uint64_t steps = 0;
    std::uint64_t alerts = 0;
    std::uint64_t handler_failures = 0;
    std::optional<EnergyMark> energy_before;  // the use when it began
  };

  // Returns how long to wait for a GPU. With manual time it is long, so that no load on the machine
  // changes what a test sees.
  Duration read_timeout(Duration default_timeout) const {
    return options_.manual_time ? kManualTimeout : default_timeout;
  }

  // Without the mutex, because they wait for the driver.
  Snapshot read(Duration timeout) const EXCLUDES(mutex_);
  std::optional<EnergyMark> measure() const EXCLUDES(mutex_);
  void sample(Duration now) EXCLUDES(mutex_);
  // Returns nothing if the handler threw.
  std::optional<TrainingAction> call_handler(const Alert&) const EXCLUDES(mutex_);
  void run_sampler() EXCLUDES(mutex_);
  void finish() EXCLUDES(mutex_);
  void update_guard(void (TrainingGuard::*what)()) EXCLUDES(mutex_);

  bool is_pausing() const REQUIRES(mutex_);
  Duration now() const REQUIRES(mutex_);
  void begin_tally(Tally&, Duration now, const std::optional<EnergyMark>&) REQUIRES(mutex_);
  TrainingReport report(const Tally&, const std::optional<EnergyMark>&) const REQUIRES(mutex_);
  void add(const Snapshot&) REQUIRES(mutex_);
  void apply_action() REQUIRES(mutex_);  // acts on a change of the guard's action

  const std::shared_ptr<const Monitor> monitor_;
  const TrainingOptions options_;

  // Held from an edge's readings until they are added, so that no later edge overtakes them. Taken
  // before mutex_.
  Mutex edge_mutex_;

  mutable Mutex mutex_;
  mutable ConditionVariable changed_;
  std::shared_ptr<const EnergyWindow> energy_window_ GUARDED_BY(mutex_);
  std::string energy_error_ GUARDED_BY(mutex_);
  TrainingGuard guard_ GUARDED_BY(mutex_);
  Tally epoch_ GUARDED_BY(mutex_);
  Tally total_ GUARDED_BY(mutex_);
  std::uint64_t epochs_ GUARDED_BY(mutex_) = 0;
  Duration manual_now_ GUARDED_BY(mutex_){};
  std::optional<Duration> paused_since_ GUARDED_BY(mutex_);
  bool sampling_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;
  std::optional<TrainingReport> final_report_ GUARDED_BY(mutex_);
  std::optional<std::thread::id> sampler_ GUARDED_BY(mutex_);  // while there is one
};

}  // namespace gpuyard::library
