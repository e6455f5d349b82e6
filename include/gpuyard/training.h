/// @file
/// A training run that keeps an eye on its GPUs: pauses or stops when they ask for it, and says
/// what each epoch cost.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuyard/andon.h"
#include "gpuyard/error.h"
#include "gpuyard/export.h"

namespace gpuyard {
inline namespace v0 {

class Monitor;

/// What a training loop should do.
enum class TrainingAction : std::uint8_t {
  keep_going,  ///< train
  pause,       ///< wait until the alert is over, or until TrainingMonitor::resume()
  stop,        ///< save what there is, and end
};

/// The enumerator's own name, "keep_going". Lives as long as the library.
GPUYARD_API std::string_view name_of(TrainingAction);

/// What one GPU did in an epoch. What was never known is empty.
struct TrainingGpu {
  std::uint32_t index = 0;                         ///< on the node, from 0
  std::optional<double> joules;                    ///< all of the device, whoever used it
  std::optional<std::uint64_t> peak_memory_bytes;  ///< the most of all samples
  std::optional<double> highest_celsius;           ///< of all samples, of the core
  /// Slowed by heat or by the power brake, as the driver counts it; of several reasons the longest.
  std::optional<double> throttled_seconds;
  std::optional<double> mean_utilization_percent;  ///< over the samples

  /// Equal when every field is.
  friend bool operator==(const TrainingGpu&, const TrainingGpu&) = default;
};

/// What an epoch, or all of them, took.
struct TrainingReport {
  std::uint64_t epoch = 0;             ///< from 1; in the totals how many were ended
  double seconds = 0;                  ///< from beginning to end, pauses and all
  double paused_seconds = 0;           ///< in which the loop was asked to wait
  std::uint64_t steps = 0;             ///< calls of step()
  std::optional<double> joules;        ///< of the GPUs that tell; empty where none does
  std::string joules_missing;          ///< why they are empty
  bool joules_estimated = false;       ///< at least a part is power over time, not counted
  double joules_unknown_seconds = 0;   ///< of the GPU of which most is not known
  std::uint64_t samples = 0;           ///< how often the GPUs were read
  std::uint64_t alerts = 0;            ///< told to the handler, or to nobody without one
  std::uint64_t handler_failures = 0;  ///< how often it threw
  std::vector<TrainingGpu> gpus;       ///< those that were seen, by index

  /// "epoch 3: 12.4 s, 400 steps, 3120 J, peak 41.2 GB, 71 C, 93 % util"; "-" for what is missing.
  GPUYARD_API std::string line() const;

  /// Equal when every field is.
  friend bool operator==(const TrainingReport&, const TrainingReport&) = default;
};

/// Watches the GPUs while a loop trains on them.
///
/// ```
/// gpuyard::TrainingMonitor training(monitor);
/// training.with_interval_secs(5).with_thermal_threshold(85).on_alert(handler);
/// training.begin();
/// for (...) {                                    // epochs
///   for (...) {                                  // batches
///     train(batch);
///     training.step();
///     while (training.wait_while_paused(10s) == gpuyard::TrainingAction::pause) log("still hot");
///     if (training.should_stop()) break;
///   }
///   log(training.epoch_end().line());
/// }
/// log(training.end().line());
/// ```
///
/// A thread of its own samples from begin() to end(). Where GPUs tell energy or power, a second one
/// reads these ten times a second, whatever the interval: peaks and estimates need it. An alert is
/// told to the handler when it trips, and again when its level rises; not with each sample. A pause
/// ends when the alert that asked for it is over: a sample has the reading, and it is below the
/// threshold. What cannot be read any more is not over. While it pauses, a GPU that does nothing is
/// no alert.
///
/// A GPU that fails, and no GPU or driver at all, makes what it would tell missing, and never an
/// error. Any thread may call any member function but those that begin with `with_` and on_alert()
/// at any time. Nothing here throws but for lack of memory.
class GPUYARD_API TrainingMonitor {
 public:
  /// Told of an alert, and says what to do. It runs on the thread that samples, without a lock, and
  /// may call whatever it likes; while it runs there are no samples.
  ///
  /// It should not throw. What it throws is logged as an error, counted in the report, and means
  /// keep_going; the next alert is told as ever.
  using Handler = std::function<TrainingAction(const Alert&)>;

  /// How long end() waits for a sample that is under way, and its handler.
  static constexpr std::chrono::milliseconds kFarewell{5000};

  /// Keeps what it needs of the monitor, which may end first.
  explicit TrainingMonitor(const Monitor& monitor);
  /// One that was moved from may only be destroyed or assigned to.
  TrainingMonitor(TrainingMonitor&&) noexcept;
  /// Ends what was watched before.
  TrainingMonitor& operator=(TrainingMonitor&&) noexcept;
  /// As end().
  ~TrainingMonitor();

  // What follows counts from the next begin() on.

  /// Between two samples: 0.1 s to a day. 5 s unless said otherwise.
  TrainingMonitor& with_interval_secs(double seconds);
  /// Degrees Celsius.
  TrainingMonitor& with_thermal_threshold(double celsius);
  /// Percent of the device memory.
  TrainingMonitor& with_memory_threshold(double percent);
  /// Percent of the power limit.
  TrainingMonitor& with_power_threshold(double percent);
  /// Seconds at exactly 0 % utilisation.
  TrainingMonitor& with_idle_timeout_secs(std::uint64_t seconds);
  /// The GPUs of this training, by index; all that there are unless said otherwise.
  TrainingMonitor& with_gpus(std::vector<std::uint32_t> indexes);
  /// Without a handler alerts are counted, and nothing else happens.
  TrainingMonitor& on_alert(Handler handler);
  /// For tests: nothing samples but sample_at(), which says the time, and no pause waits. A GPU is
  /// waited for, 10 s at most, so that a machine under load changes no result.
  TrainingMonitor& with_manual_time();

  /// The training begins, and its first epoch. Reads the GPUs three times, and waits for 250 ms at
  /// most each time.
  ///
  /// Errors: it has begun already (Errc::conflict), the interval is none (invalid), there is no
  /// thread to be had (unavailable). Then it has not begun.
  Result<void> begin();
  /// A batch was trained. Says what to do now, and waits for nothing.
  TrainingAction step();
  /// The epoch is over, and the next begins. Waits for 500 ms at most, and for another thread that
  /// is ending an epoch or the training just then. Empty before begin().
  TrainingReport epoch_end();
  /// The training is over: the totals, which have the epoch that was under way in them. Waits as
  /// epoch_end() does, for 250 ms more until no energy is read, for a sample that is under way - of
  /// a GPU that hangs 2 s, or the interval if that is less - and for its handler. For these two it
  /// waits for kFarewell at most: a handler that takes longer is left behind, so what it uses must
  /// outlive it. It is told of no further alert. Ending it again changes nothing.
  TrainingReport end();

  /// What the loop should do now. Does not wait.
  TrainingAction action() const;
  /// Whether it should end: an alert or stop() said so. It stays so until the next begin().
  bool should_stop() const;
  /// Waits while the loop should pause, for `deadline` and for a day at most. Says what to do then:
  /// `pause` if the deadline came first. One that end() interrupts says `stop`.
  TrainingAction wait_while_paused(std::chrono::milliseconds deadline) const;
  /// The alert that paused or stopped it last.
  std::optional<Alert> cause() const;

  /// Pauses until resume(), whatever the alerts do.
  void pause();
  /// Ends pauses, also those whose alert goes on: that one pauses again when it was over, or
  /// becomes worse.
  void resume();
  /// As if a handler had said stop.
  void stop();

  /// With manual time: takes a sample, at this moment of the test's clock. The handler runs here.
  void sample_at(std::chrono::nanoseconds now);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace gpuyard
