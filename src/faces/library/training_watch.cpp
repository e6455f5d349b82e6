#include "library/training_watch.h"

#include <algorithm>
#include <variant>

namespace gpuyard::library {
namespace {

std::pair<std::uint32_t, std::size_t> key_of(const Alert& alert) {
  return {alert.device(), alert.kind.index()};
}

// Whether these metrics have what an alert of this kind is about.
struct Known {
  const GpuMetrics& gpu;
  bool operator()(const ThermalThrottling&) const { return gpu.temperature_celsius.has_value(); }
  bool operator()(const MemoryPressure&) const { return gpu.memory_percent().has_value(); }
  bool operator()(const PowerLimitReached&) const { return gpu.power_percent().has_value(); }
  bool operator()(const GpuIdle&) const { return gpu.utilization_percent.has_value(); }
};

bool tells_of(const std::vector<GpuMetrics>& metrics, const Alert& alert) {
  return std::ranges::any_of(metrics, [&](const GpuMetrics& gpu) {
    return gpu.device_id == alert.device() && std::visit(Known{gpu}, alert.kind);
  });
}

}  // namespace

void TrainingWatch::forget_what_is_over(const std::vector<Alert>& now,
                                        const std::vector<GpuMetrics>& metrics) {
  std::erase_if(active_, [&](const auto& known) {
    const bool goes_on =
        std::ranges::any_of(now, [&](const Alert& alert) { return key_of(alert) == known.first; });
    return !goes_on && tells_of(metrics, known.second.alert);
  });
}

std::vector<Alert> TrainingWatch::look(std::vector<GpuMetrics> metrics,
                                       std::chrono::nanoseconds now) {
  if (action() == TrainingAction::pause) {
    // Whoever waits does nothing; that is no hang.
    for (GpuMetrics& gpu : metrics) gpu.in_use = false;
  }
  const std::vector<Alert> alerts = andon_.check(metrics, now);
  forget_what_is_over(alerts, metrics);
  std::vector<Alert> news;
  for (const Alert& alert : alerts) {
    const AlertLevel level = alert.level();
    const auto [active, is_new] = active_.try_emplace(key_of(alert), Active{alert, level});
    active->second.alert = alert;
    if (!is_new && level <= active->second.told) continue;
    active->second.told = level;
    news.push_back(alert);
  }
  return news;
}

void TrainingWatch::answer(const Alert& alert, TrainingAction action) {
  const auto active = active_.find(key_of(alert));
  if (active != active_.end()) active->second.pauses = action == TrainingAction::pause;
  if (action == TrainingAction::stop) stopped_ = true;
  if (action != TrainingAction::keep_going) cause_ = alert;
}

void TrainingWatch::resume() {
  held_ = false;
  for (auto& [key, active] : active_) active.pauses = false;
}

TrainingAction TrainingWatch::action() const {
  if (stopped_) return TrainingAction::stop;
  const bool pauses =
      std::ranges::any_of(active_, [](const auto& known) { return known.second.pauses; });
  return held_ || pauses ? TrainingAction::pause : TrainingAction::keep_going;
}

}  // namespace gpuyard::library
