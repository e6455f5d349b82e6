#include "faces/library/training_run.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace gpuyard::library {
namespace {

using energy::joules_of;

double unknown_seconds(const EnergyMark& mark) {
  Duration most{};
  for (const energy::GpuResult& gpu : mark.used.gpus) {
    most = std::max(most, gpu.known ? gpu.unknown : mark.used.length);
  }
  return energy::seconds_of(most);
}

// The energy between two marks; nothing if none of that time is known.
std::optional<std::int64_t> energy_delta_mj(const energy::GpuResult& now,
                                            const energy::GpuResult* before) {
  if (before == nullptr || !now.known) return std::nullopt;
  const std::int64_t grown = now.energy_mj - before->energy_mj;
  const Duration known = (now.length - now.unknown) - (before->length - before->unknown);
  return grown != 0 || known > Duration::zero() ? std::optional(grown) : std::nullopt;
}

std::string missing_energy_reason(const Snapshot& snapshot) {
  for (const DeviceState& device : snapshot.devices) {
    std::string why = energy::missing_energy_reason(device.sample);
    if (!why.empty()) return why;
  }
  return "the energy was read only once";
}

}  // namespace

TrainingRun::TrainingRun(std::shared_ptr<const Monitor> monitor, std::string why,
                         TrainingOptions options)
    : monitor_(std::move(monitor)),
      options_(std::move(options)),
      energy_error_(std::move(why)),
      guard_(options_.thresholds) {}

Snapshot TrainingRun::read(Duration timeout) const {
  if (!monitor_) return {};
  Snapshot all = monitor_->snapshot(timeout, kTrainingProbes);
  if (!options_.gpus.empty()) {
    std::erase_if(all.devices, [&](const DeviceState& device) {
      return std::ranges::find(options_.gpus, device.info.index) == options_.gpus.end();
    });
  }
  return all;
}

std::optional<EnergyMark> TrainingRun::measure() const {
  MutexLock lock(mutex_);
  const auto window = energy_window_;
  lock.unlock();
  if (!window) return std::nullopt;
  return window->mark();
}

std::optional<TrainingAction> TrainingRun::call_handler(const Alert& alert) const {
  if (!options_.handler) return TrainingAction::keep_going;
  try {
    return options_.handler(alert);
  } catch (const std::exception& thrown) {
    log::error("The training's alert handler threw: {}", thrown.what());
  } catch (...) {
    log::error("The training's alert handler threw an unknown exception");
  }
  return std::nullopt;
}

void TrainingRun::sample(Duration moment) {
  const Snapshot snapshot = read(read_timeout(std::min(options_.interval, kSampleTimeout)));
  std::vector<GpuMetrics> metrics;
  for (const DeviceState& device : snapshot.devices) metrics.push_back(metrics_of(device));
  MutexLock lock(mutex_);
  if (ended_) return;
  add(snapshot);
  const std::vector<Alert> alerts = guard_.evaluate(std::move(metrics), moment);
  apply_action();
  for (const Alert& alert : alerts) {
    if (ended_) return;
    lock.unlock();
    const auto action = call_handler(alert);
    lock.lock();
    for (Tally* tally : {&epoch_, &total_}) {
      ++tally->alerts;
      if (!action) ++tally->handler_failures;
    }
    guard_.record_action(alert, action.value_or(TrainingAction::keep_going));
    apply_action();
  }
}

void TrainingRun::run_sampler() {
  MutexLock lock(mutex_);
  while (!ended_) {
    const Duration moment = now();
    lock.unlock();
    try {
      sample(moment);
    } catch (const std::exception& thrown) {  // no memory
      log::error("A training sample failed: {}", thrown.what());
    }
    lock.lock();
    changed_.wait_for(mutex_, options_.interval, [&]() REQUIRES(mutex_) { return ended_; });
  }
  sampler_.reset();
  changed_.notify_all();
}

bool TrainingRun::is_pausing() const {
  return !ended_ && guard_.action() == TrainingAction::pause;
}

Duration TrainingRun::now() const {
  return options_.manual_time ? manual_now_ : BootClock::now().time_since_epoch();
}

void TrainingRun::begin_tally(Tally& tally, Duration moment,
                              const std::optional<EnergyMark>& energy) {
  TrainingStats stats = std::move(tally.stats);
  stats.reset();
  tally = Tally{};
  tally.stats = std::move(stats);
  tally.began_at = moment;
  tally.energy_before = energy;
}

void TrainingRun::add(const Snapshot& snapshot) {
  if (!monitor_) return;
  epoch_.stats.add(snapshot);
  total_.stats.add(snapshot);
}

void TrainingRun::apply_action() {
  const Duration moment = now();
  if (paused_since_) {
    for (Tally* tally : {&epoch_, &total_}) tally->paused += moment - *paused_since_;
    paused_since_.reset();
  }
  if (guard_.action() == TrainingAction::pause) paused_since_ = moment;
  changed_.notify_all();
}

TrainingReport TrainingRun::report(const Tally& tally,
                                   const std::optional<EnergyMark>& energy) const {
  TrainingReport out;
  out.epoch = epochs_;
  out.seconds = to_seconds(now() - tally.began_at);
  out.paused_seconds = to_seconds(tally.paused);
  out.steps = tally.steps;
  out.alerts = tally.alerts;
  out.handler_failures = tally.handler_failures;
  out.samples = tally.stats.samples();
  out.gpus = tally.stats.gpus();
  if (!energy || !tally.energy_before) {
    out.joules_missing = energy_error_;
    return out;
  }
  const EnergyMark& before = *tally.energy_before;
  std::int64_t used_mj = 0;
  for (const energy::GpuResult& gpu : energy->used.gpus) {
    const auto grown = energy_delta_mj(gpu, before.find(gpu.uuid));
    if (grown) out.joules = joules_of(used_mj += *grown);
  }
  if (!out.joules) out.joules_missing = missing_energy_reason(energy->snapshot);
  out.joules_unknown_seconds = unknown_seconds(*energy) - unknown_seconds(before);
  out.joules_estimated = energy->estimated_mj > before.estimated_mj;
  for (TrainingGpu& gpu : out.gpus) {
    const std::string& uuid = monitor_->device(gpu.index)->uuid;
    const energy::GpuResult* used = energy->find(uuid);
    const energy::GpuResult* earlier = before.find(uuid);
    const auto grown = used != nullptr ? energy_delta_mj(*used, earlier) : std::nullopt;
    if (grown) gpu.joules = joules_of(*grown);
  }
  return out;
}

Result<void> TrainingRun::begin() {
  if (monitor_) {
    energy::WindowRequest request;
    for (const std::uint32_t index : options_.gpus) request.gpus.push_back(std::to_string(index));
    auto window = EnergyWindow::begin(*monitor_, request, read_timeout(EnergyWindow::kReadTimeout));
    const MutexLock lock(mutex_);
    if (window) {
      energy_window_ = std::make_shared<const EnergyWindow>(*std::move(window));
    } else {
      energy_error_ = std::move(window).error().text();
    }
  }
  const Snapshot first = read(read_timeout(kEdgeTimeout));
  const std::optional<EnergyMark> energy = measure();
  const MutexLock lock(mutex_);
  for (Tally* tally : {&epoch_, &total_}) begin_tally(*tally, now(), energy);
  add(first);
  if (options_.manual_time) return {};
  try {
    std::thread sampler([self = shared_from_this()] { self->run_sampler(); });
    sampler_ = sampler.get_id();
    sampler.detach();  // end() waits for it as long as it may
  } catch (const std::system_error& none) {
    return Error{Errc::unavailable,
                 fmt::format("no thread to watch the training with: {}", none.what())};
  }
  return {};
}

TrainingAction TrainingRun::step() {
  const MutexLock lock(mutex_);
  ++epoch_.steps;
  ++total_.steps;
  return guard_.action();
}

TrainingReport TrainingRun::epoch_end() {
  const MutexLock edge(edge_mutex_);
  const Snapshot last = read(read_timeout(kEdgeTimeout));
  const std::optional<EnergyMark> energy = measure();
  const MutexLock lock(mutex_);
  if (ended_) return {};
  add(last);
  apply_action();
  ++epochs_;
  TrainingReport ended = report(epoch_, energy);
  begin_tally(epoch_, now(), energy);
  return ended;
}

void TrainingRun::finish() {
  const MutexLock edge(edge_mutex_);
  if (has_ended()) return;
  const Snapshot last = read(read_timeout(kEdgeTimeout));
  const std::optional<EnergyMark> energy = measure();
  std::shared_ptr<const EnergyWindow> window;  // ends when the mutex is free again
  const MutexLock lock(mutex_);
  add(last);
  apply_action();
  final_report_ = report(total_, energy);
  window = std::move(energy_window_);
  ended_ = true;
  changed_.notify_all();
}

TrainingReport TrainingRun::end() {
  finish();
  const MutexLock lock(mutex_);
  // A handler that ends its own training must not be waited for.
  if (sampler_ != std::this_thread::get_id()) {
    changed_.wait_for(mutex_, TrainingMonitor::kFarewell,
                      [&]() REQUIRES(mutex_) { return !sampler_; });
  }
  return final_report_.value_or(TrainingReport{});
}

bool TrainingRun::has_ended() const {
  const MutexLock lock(mutex_);
  return ended_;
}

TrainingAction TrainingRun::action() const {
  const MutexLock lock(mutex_);
  return guard_.action();
}

TrainingAction TrainingRun::wait_while_paused(Duration timeout) const {
  const MutexLock lock(mutex_);
  if (is_pausing() && !options_.manual_time) {
    changed_.wait_for(mutex_, timeout, [&]() REQUIRES(mutex_) { return !is_pausing(); });
  }
  return ended_ ? TrainingAction::stop : guard_.action();
}

std::optional<Alert> TrainingRun::cause() const {
  const MutexLock lock(mutex_);
  return guard_.cause();
}

void TrainingRun::update_guard(void (TrainingGuard::*what)()) {
  const MutexLock lock(mutex_);
  (guard_.*what)();
  apply_action();
}

void TrainingRun::sample_at(Duration moment) {
  MutexLock lock(mutex_);
  if (!options_.manual_time || sampling_) return;  // a handler that samples would never end
  sampling_ = true;
  manual_now_ = std::max(manual_now_, moment);
  lock.unlock();
  sample(moment);
  lock.lock();
  sampling_ = false;
}

}  // namespace gpuyard::library
