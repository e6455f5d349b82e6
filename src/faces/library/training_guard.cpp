#include "faces/library/training_guard.h"

#include <algorithm>
#include <variant>

namespace gpuyard::library {
namespace {

std::pair<std::uint32_t, std::size_t> key_of(const Alert& alert) {
  return {alert.device(), alert.kind.index()};
}

// Returns whether these metrics have the values that an alert of this kind needs.
struct HasReading {
  const GpuMetrics& gpu;
  bool operator()(const ThermalThrottling&) const { return gpu.temperature_celsius.has_value(); }
  bool operator()(const MemoryPressure&) const { return gpu.memory_percent().has_value(); }
  bool operator()(const PowerLimitReached&) const { return gpu.power_percent().has_value(); }
  bool operator()(const GpuIdle&) const { return gpu.utilization_percent.has_value(); }
};

bool has_reading_for(const std::vector<GpuMetrics>& metrics, const Alert& alert) {
  return std::ranges::any_of(metrics, [&](const GpuMetrics& gpu) {
    return gpu.device_id == alert.device() && std::visit(HasReading{gpu}, alert.kind);
  });
}

}  // namespace

void TrainingGuard::drop_resolved(const std::vector<Alert>& now,
                                  const std::vector<GpuMetrics>& metrics) {
  std::erase_if(active_, [&](const auto& known) {
    const bool goes_on =
        std::ranges::any_of(now, [&](const Alert& alert) { return key_of(alert) == known.first; });
    return !goes_on && has_reading_for(metrics, known.second.alert);
  });
}

std::vector<Alert> TrainingGuard::evaluate(std::vector<GpuMetrics> metrics,
                                           std::chrono::nanoseconds now) {
  if (action() == TrainingAction::pause) {
    // A paused training uses no GPU; that is no hang.
    for (GpuMetrics& gpu : metrics) gpu.in_use = false;
  }
  const std::vector<Alert> alerts = andon_.check(metrics, now);
  drop_resolved(alerts, metrics);
  std::vector<Alert> new_alerts;
  for (const Alert& alert : alerts) {
    const AlertLevel level = alert.level();
    const auto [active, is_new] = active_.try_emplace(key_of(alert), ActiveAlert{alert, level});
    active->second.alert = alert;
    if (!is_new && level <= active->second.notified_level) continue;
    active->second.notified_level = level;
    new_alerts.push_back(alert);
  }
  return new_alerts;
}

void TrainingGuard::record_action(const Alert& alert, TrainingAction action) {
  const auto active = active_.find(key_of(alert));
  if (active != active_.end()) active->second.pauses = action == TrainingAction::pause;
  if (action == TrainingAction::stop) stopped_ = true;
  if (action != TrainingAction::keep_going) cause_ = alert;
}

void TrainingGuard::resume() {
  paused_ = false;
  for (auto& [key, active] : active_) active.pauses = false;
}

TrainingAction TrainingGuard::action() const {
  if (stopped_) return TrainingAction::stop;
  const bool pauses =
      std::ranges::any_of(active_, [](const auto& known) { return known.second.pauses; });
  return paused_ || pauses ? TrainingAction::pause : TrainingAction::keep_going;
}

namespace {

constexpr std::array kThrottleTimes = {Metric::throttle_time_sw_thermal,
                                       Metric::throttle_time_hw_thermal,
                                       Metric::throttle_time_power_brake};

}  // namespace

void TrainingStats::Growth::read(const Reading* reading) {
  const std::int64_t* counter = reading != nullptr ? reading->number() : nullptr;
  // A reading that comes late is less than the last, and would be taken for a reset.
  if (counter == nullptr || (last && reading->taken <= taken)) return;
  // A counter that fell was reset with its GPU: only its count since then is known.
  if (last) grown += *counter >= *last ? *counter - *last : *counter;
  last = *counter;
  taken = reading->taken;
  known = true;
}

void TrainingStats::Growth::reset() {
  grown = 0;
  known = false;
}

void TrainingStats::Gpu::add(const DeviceState& device) {
  const GpuMetrics now = metrics_of(device);
  seen = true;
  // An empty optional is less than any value.
  peak_memory = std::max(peak_memory, now.memory_used_bytes);
  highest_celsius = std::max(highest_celsius, now.temperature_celsius);
  if (now.utilization_percent) {
    utilization += *now.utilization_percent;
    ++utilizations;
  }
  for (std::size_t i = 0; i < kThrottleReasons; ++i) {
    throttled[i].read(device.sample.find(kThrottleTimes[i]));
  }
}

TrainingGpu TrainingStats::Gpu::report(std::uint32_t index) const {
  constexpr double kNanoseconds = 1e9;
  TrainingGpu out;
  out.index = index;
  out.peak_memory_bytes = peak_memory;
  out.highest_celsius = highest_celsius;
  for (const Growth& reason : throttled) {
    if (!reason.known) continue;
    const double seconds = static_cast<double>(reason.grown) / kNanoseconds;
    out.throttled_seconds = std::max(out.throttled_seconds.value_or(0), seconds);
  }
  if (utilizations > 0) {
    out.mean_utilization_percent = utilization / static_cast<double>(utilizations);
  }
  return out;
}

void TrainingStats::add(const Snapshot& snapshot) {
  ++samples_;
  for (const DeviceState& device : snapshot.devices) gpus_[device.info.index].add(device);
}

void TrainingStats::reset() {
  samples_ = 0;
  for (auto& [index, gpu] : gpus_) {
    Gpu fresh;
    fresh.throttled = gpu.throttled;
    for (Growth& reason : fresh.throttled) reason.reset();
    gpu = fresh;
  }
}

std::vector<TrainingGpu> TrainingStats::gpus() const {
  std::vector<TrainingGpu> all;
  for (const auto& [index, gpu] : gpus_) {
    if (gpu.seen) all.push_back(gpu.report(index));
  }
  return all;
}

}  // namespace gpuyard::library
