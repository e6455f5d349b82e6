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

}  // namespace gpuyard::library
