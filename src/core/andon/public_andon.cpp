// The four checks of the public Andon, and since when a GPU is idle. The daemon's rules are more;
// what they have in common is severity.h.
#include "gpuyard/andon.h"

#include <optional>
#include <utility>

#include "base/clock.h"

namespace gpuyard {
namespace {

using std::chrono::nanoseconds;

// Unsigned: from one end of a clock to the other is more than it can count.
std::uint64_t seconds_between(nanoseconds before, nanoseconds now) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const auto count = [](nanoseconds time) { return static_cast<std::uint64_t>(time.count()); };
  return (count(now) - count(before)) / kSecond;
}

bool is_idle(const GpuMetrics& gpu) {
  return gpu.utilization_percent == 0.0 && gpu.in_use.value_or(true);
}

// Missing reaches nothing, and neither does NaN.
bool reaches(std::optional<double> value, double threshold) {
  return value && *value >= threshold;
}

void check_now(const GpuMetrics& gpu, const AndonThresholds& at, std::vector<Alert>& alerts) {
  const std::uint32_t device = gpu.device_id;
  if (const auto celsius = gpu.temperature_celsius; reaches(celsius, at.thermal_threshold)) {
    alerts.push_back({ThermalThrottling{device, *celsius, at.thermal_threshold}});
  }
  if (const auto used = gpu.memory_percent(); reaches(used, at.memory_threshold)) {
    alerts.push_back({MemoryPressure{device, *used, at.memory_threshold}});
  }
  if (const auto power = gpu.power_percent(); reaches(power, at.power_threshold)) {
    alerts.push_back({PowerLimitReached{device, *power, at.power_threshold}});
  }
}

}  // namespace

std::vector<Alert> v0::Andon::check(std::span<const GpuMetrics> metrics) {
  return check(metrics, BootClock::now().time_since_epoch());
}

std::vector<Alert> v0::Andon::check(std::span<const GpuMetrics> metrics, nanoseconds now) {
  std::vector<Alert> alerts;
  const auto before = std::exchange(idle_, {});  // who is not told now is forgotten
  for (const GpuMetrics& gpu : metrics) {
    check_now(gpu, thresholds_, alerts);
    if (!is_idle(gpu)) continue;
    const auto known = before.find(gpu.device_id);
    const bool goes_on = known != before.end() && known->second.seen <= now;
    const Idle idle{goes_on ? known->second.since : now, now};
    idle_.insert_or_assign(gpu.device_id, idle);
    const std::uint64_t seconds = seconds_between(idle.since, now);
    if (seconds < thresholds_.idle_timeout_secs) continue;
    alerts.push_back({GpuIdle{gpu.device_id, seconds, thresholds_.idle_timeout_secs}});
  }
  return alerts;
}

}  // namespace gpuyard
