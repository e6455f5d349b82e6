// The public TrainingMonitor: its options, and the training that is under way or was last.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/mutex.h"
#include "base/record.h"
#include "base/try.h"
#include "faces/library/public_monitor.h"
#include "faces/library/training_run.h"
#include "gpuyard/training.h"

namespace gpuyard {

BOOST_DESCRIBE_ENUM(TrainingAction, keep_going, pause, stop)

namespace {

using library::TrainingRun;

std::string format_or_dash(std::optional<double> value, fmt::string_view format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

// Returns the highest value of all GPUs; an empty optional is less than any value.
template <class Of>
std::optional<double> max_of(const std::vector<TrainingGpu>& gpus, Of of) {
  std::optional<double> highest;
  for (const TrainingGpu& gpu : gpus) highest = std::max<std::optional<double>>(highest, of(gpu));
  return highest;
}

std::optional<double> mean_utilization(const std::vector<TrainingGpu>& gpus) {
  double sum = 0;
  int known = 0;
  for (const TrainingGpu& gpu : gpus) {
    if (!gpu.mean_utilization_percent) continue;
    sum += *gpu.mean_utilization_percent;
    ++known;
  }
  return known > 0 ? std::optional(sum / known) : std::nullopt;
}

}  // namespace

std::string_view v0::name_of(TrainingAction action) {
  return enum_name(action);
}

std::string TrainingReport::line() const {
  constexpr double kGigabyte = 1e9;
  const auto memory = max_of(gpus, [](const TrainingGpu& gpu) -> std::optional<double> {
    if (!gpu.peak_memory_bytes) return std::nullopt;
    return static_cast<double>(*gpu.peak_memory_bytes) / kGigabyte;
  });
  const auto celsius = max_of(gpus, [](const TrainingGpu& gpu) { return gpu.highest_celsius; });
  return fmt::format("epoch {}: {:.1f} s, {} steps, {} J, peak {} GB, {} C, {} % util", epoch,
                     seconds, steps, format_or_dash(joules, "{:.0f}"),
                     format_or_dash(memory, "{:.1f}"), format_or_dash(celsius, "{:.0f}"),
                     format_or_dash(mean_utilization(gpus), "{:.0f}"));
}

struct [[gnu::visibility("hidden")]] v0::TrainingMonitor::State {
  // Returns the training that is under way, or was last; nullptr: there was none.
  std::shared_ptr<TrainingRun> run() const {
    const MutexLock lock(mutex);
    return current;
  }

  std::shared_ptr<const Monitor::State> monitor;
  double interval_secs = 5;
  library::TrainingOptions options;
  mutable Mutex mutex;
  std::shared_ptr<TrainingRun> current GUARDED_BY(mutex);
};

v0::TrainingMonitor::TrainingMonitor(const Monitor& monitor) : state_(std::make_unique<State>()) {
  state_->monitor = monitor.state_;
}
v0::TrainingMonitor::TrainingMonitor(TrainingMonitor&&) noexcept = default;
v0::TrainingMonitor& v0::TrainingMonitor::operator=(TrainingMonitor&& other) noexcept {
  if (this == &other) return *this;
  if (state_) end();
  state_ = std::move(other.state_);
  return *this;
}
v0::TrainingMonitor::~TrainingMonitor() {
  if (state_) end();
}

v0::TrainingMonitor& v0::TrainingMonitor::with_interval_secs(double seconds) {
  state_->interval_secs = seconds;
  return *this;
}
v0::TrainingMonitor& v0::TrainingMonitor::with_thermal_threshold(double celsius) {
  state_->options.thresholds.thermal_threshold = celsius;
  return *this;
}
v0::TrainingMonitor& v0::TrainingMonitor::with_memory_threshold(double percent) {
  state_->options.thresholds.memory_threshold = percent;
  return *this;
}
v0::TrainingMonitor& v0::TrainingMonitor::with_power_threshold(double percent) {
  state_->options.thresholds.power_threshold = percent;
  return *this;
}
v0::TrainingMonitor& v0::TrainingMonitor::with_idle_timeout_secs(std::uint64_t seconds) {
  state_->options.thresholds.idle_timeout_secs = seconds;
  return *this;
}
v0::TrainingMonitor& v0::TrainingMonitor::with_gpus(std::vector<std::uint32_t> indexes) {
  state_->options.gpus = std::move(indexes);
  return *this;
}
v0::TrainingMonitor& v0::TrainingMonitor::on_alert(Handler handler) {
  state_->options.handler = std::move(handler);
  return *this;
}
v0::TrainingMonitor& v0::TrainingMonitor::with_manual_time() {
  state_->options.manual_time = true;
  return *this;
}

Result<void> v0::TrainingMonitor::begin() {
  constexpr double kMinInterval = 0.1;
  constexpr double kMaxInterval = 86'400;
  const double interval = state_->interval_secs;
  if (!(interval >= kMinInterval && interval <= kMaxInterval)) {
    return Error{Errc::invalid, fmt::format("an interval of {} s is not between {} s and {} s",
                                            interval, kMinInterval, kMaxInterval)};
  }
  library::TrainingOptions options = state_->options;
  options.interval = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(interval));
  const auto& opened = state_->monitor->monitor;
  // Shares ownership with the public monitor's state.
  std::shared_ptr<const library::Monitor> monitor;
  if (opened) monitor = {state_->monitor, &*opened};
  const MutexLock lock(state_->mutex);
  if (state_->current && !state_->current->has_ended()) {
    return Error{Errc::conflict, "the training has already started; call end() first"};
  }
  auto run = std::make_shared<TrainingRun>(std::move(monitor), opened ? "" : opened.error().text(),
                                           std::move(options));
  GPUYARD_TRY(run->begin());
  state_->current = std::move(run);
  return {};
}

TrainingAction v0::TrainingMonitor::step() {
  const auto run = state_->run();
  return run ? run->step() : TrainingAction::keep_going;
}

TrainingReport v0::TrainingMonitor::epoch_end() {
  const auto run = state_->run();
  return run ? run->epoch_end() : TrainingReport{};
}

TrainingReport v0::TrainingMonitor::end() {
  const auto run = state_->run();
  return run ? run->end() : TrainingReport{};
}

TrainingAction v0::TrainingMonitor::action() const {
  const auto run = state_->run();
  return run ? run->action() : TrainingAction::keep_going;
}

bool v0::TrainingMonitor::should_stop() const {
  return action() == TrainingAction::stop;
}

TrainingAction v0::TrainingMonitor::wait_while_paused(std::chrono::milliseconds deadline) const {
  constexpr std::chrono::milliseconds kMaxWait = std::chrono::hours(24);  // nanoseconds overflow
  const auto run = state_->run();
  return run ? run->wait_while_paused(std::min(deadline, kMaxWait)) : action();
}

std::optional<Alert> v0::TrainingMonitor::cause() const {
  const auto run = state_->run();
  return run ? run->cause() : std::nullopt;
}

void v0::TrainingMonitor::pause() {
  if (const auto run = state_->run()) run->pause();
}

void v0::TrainingMonitor::resume() {
  if (const auto run = state_->run()) run->resume();
}

void v0::TrainingMonitor::stop() {
  if (const auto run = state_->run()) run->stop();
}

void v0::TrainingMonitor::sample_at(std::chrono::nanoseconds now) {
  if (const auto run = state_->run()) run->sample_at(now);
}

}  // namespace gpuyard
