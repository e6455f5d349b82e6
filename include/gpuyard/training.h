/// @file
/// Watches the GPUs of a training run: pauses or stops the run on alerts, and reports what each
/// epoch cost.
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

/// The action that a training loop should take.
enum class TrainingAction : std::uint8_t {
  keep_going,  ///< train
  pause,       ///< wait until the alert is over, or until TrainingMonitor::resume()
  stop,        ///< save what there is, and end
};

/// The enumerator's own name, "keep_going". Lives as long as the library.
GPUYARD_API std::string_view name_of(TrainingAction);

/// The figures of one GPU in an epoch. A value that was never known is empty.
struct TrainingGpu {
  std::uint32_t index = 0;                         ///< on the node, from 0
  std::optional<double> joules;                    ///< of the whole device, for all processes
  std::optional<std::uint64_t> peak_memory_bytes;  ///< the highest of all samples
  std::optional<double> highest_celsius;           ///< core temperature, the highest of all samples
  /// The time that heat or the power brake slowed it, as the driver counts; of several reasons the
  /// longest.
  std::optional<double> throttled_seconds;
  std::optional<double> mean_utilization_percent;  ///< over the samples

  /// Equal when every field is.
  friend bool operator==(const TrainingGpu&, const TrainingGpu&) = default;
};

/// The figures of an epoch, or of all epochs together.
struct TrainingReport {
  std::uint64_t epoch = 0;             ///< from 1; in the totals the number of ended epochs
  double seconds = 0;                  ///< from beginning to end, pauses included
  double paused_seconds = 0;           ///< time for which the loop was asked to wait
  std::uint64_t steps = 0;             ///< calls of step()
  std::optional<double> joules;        ///< of the GPUs that report energy; empty if none does
  std::string joules_missing;          ///< why `joules` is empty
  bool joules_estimated = false;       ///< at least a part is power over time, not from a counter
  double joules_unknown_seconds = 0;   ///< unknown time, of the GPU that has most of it
  std::uint64_t samples = 0;           ///< how often the GPUs were read
  std::uint64_t alerts = 0;            ///< trips and rises of alerts, handler or not
  std::uint64_t handler_failures = 0;  ///< how often the handler threw
  std::vector<TrainingGpu> gpus;       ///< those that were seen, by index

  /// "epoch 3: 12.4 s, 400 steps, 3120 J, peak 41.2 GB, 71 C, 93 % util"; "-" stands for a missing
  /// value.
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
/// A thread of its own samples from begin() to end(). Where GPUs report energy or power, a second
/// thread reads these ten times a second, whatever the interval: peaks and estimates need it. The
/// handler is called when an alert trips, and again when its level rises; not at each sample. A
/// pause ends when the alert that caused it is over: a sample has the reading, and it is below the
/// threshold. An alert whose reading is missing is not over. During a pause an idle GPU is no
/// alert.
///
/// If a GPU fails, or there is no GPU or driver at all, its values are missing; that is never an
/// error. Any thread may call any member function but those that begin with `with_` and on_alert()
/// at any time. Nothing here throws except for lack of memory.
class GPUYARD_API TrainingMonitor {
 public:
  /// Receives an alert, and returns what to do. It runs on the sampling thread, without a lock, and
  /// may call any function; while it runs there are no samples.
  ///
  /// It should not throw. An exception is logged as an error, counted in the report, and means
  /// keep_going; the handler receives the next alert as usual.
  using Handler = std::function<TrainingAction(const Alert&)>;

  /// The longest wait of end() for a running sample and its handler.
  static constexpr std::chrono::milliseconds kFarewell{5000};

  /// The monitor may be destroyed before this object.
  explicit TrainingMonitor(const Monitor& monitor);
  /// A moved-from object may only be destroyed or assigned to.
  TrainingMonitor(TrainingMonitor&&) noexcept;
  /// Ends the training that it watched before.
  TrainingMonitor& operator=(TrainingMonitor&&) noexcept;
  /// As end().
  ~TrainingMonitor();

  // These take effect at the next begin().

  /// Time between two samples: 0.1 s to a day, 5 s by default.
  TrainingMonitor& with_interval_secs(double seconds);
  /// The temperature that trips an alert, degrees Celsius.
  TrainingMonitor& with_thermal_threshold(double celsius);
  /// The memory use that trips an alert, percent of the device memory.
  TrainingMonitor& with_memory_threshold(double percent);
  /// The power draw that trips an alert, percent of the power limit.
  TrainingMonitor& with_power_threshold(double percent);
  /// The time at exactly 0 % utilisation that trips an alert, seconds.
  TrainingMonitor& with_idle_timeout_secs(std::uint64_t seconds);
  /// The GPUs of this training, by index; all GPUs by default.
  TrainingMonitor& with_gpus(std::vector<std::uint32_t> indexes);
  /// Sets the handler of alerts. Without one, alerts are only counted.
  TrainingMonitor& on_alert(Handler handler);
  /// For tests: only sample_at(), which is given the time, takes samples, and no pause waits. A
  /// sample waits up to 10 s for a GPU, so that a machine under load changes no result.
  TrainingMonitor& with_manual_time();

  /// Begins the training and its first epoch. Reads the GPUs three times, and waits at most 250 ms
  /// each time.
  ///
  /// Errors: the training has begun already (Errc::conflict), the interval is out of range
  /// (invalid), no thread can be started (unavailable). After an error this call has begun nothing.
  Result<void> begin();
  /// Counts a trained batch. Returns what to do now, without waiting.
  TrainingAction step();
  /// Ends the epoch and begins the next. Waits at most 500 ms, and for another thread that is
  /// ending an epoch or the training at that moment. Returns an empty report before begin().
  TrainingReport epoch_end();
  /// Ends the training and returns the totals, the current epoch included. Waits as epoch_end()
  /// does, 250 ms more for the energy readings to end, for a running sample - for a hung GPU 2 s,
  /// or the interval if that is less - and for its handler. It waits for these two for kFarewell at
  /// most: a handler that takes longer is left behind, so the objects that it uses must outlive it.
  /// The handler receives no further alert. Ending the training again changes nothing.
  TrainingReport end();

  /// The action that the loop should take now. Does not wait.
  TrainingAction action() const;
  /// Whether the loop should end, because of an alert or stop(). Stays true until the next begin().
  bool should_stop() const;
  /// Waits while the loop should pause, for at most `deadline` and at most a day. Returns what to
  /// do then: `pause` if the deadline came first, `stop` if end() interrupts it.
  TrainingAction wait_while_paused(std::chrono::milliseconds deadline) const;
  /// The alert that last paused or stopped the loop.
  std::optional<Alert> cause() const;

  /// Pauses the loop until resume(), whatever the alerts do.
  void pause();
  /// Ends all pauses, even if an alert goes on: such an alert pauses again only after it was over,
  /// or when it becomes worse.
  void resume();
  /// Stops the loop, as if a handler had returned stop.
  void stop();

  /// Takes a sample at this time of the test's clock; only with manual time. The handler runs on
  /// this thread.
  void sample_at(std::chrono::nanoseconds now);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace gpuyard
