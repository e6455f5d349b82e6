// The four checks of the public Andon, and since when a GPU is idle. The daemon has more rules;
// both share the severities of alert.h.
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/record.h"
#include "core/andon/alert.h"
#include "core/andon/alert_severity.h"
#include "gpuyard/andon.h"

namespace gpuyard {

// The texts of an alert.
namespace {

// Formats a reading for a message: "87", "95.2".
std::string rounded_text(double value) {
  constexpr double kTenths = 10;
  return fmt::format("{}", std::round(value * kTenths) / kTenths);
}

int severity_of(const ThermalThrottling& hot) {
  return andon::thermal_severity(hot.temp, hot.threshold);
}
int severity_of(const MemoryPressure& full) {
  return andon::memory_severity(full.used_percent);
}
int severity_of(const PowerLimitReached& power) {
  return andon::power_severity(power.power_percent);
}
int severity_of(const GpuIdle& idle) {
  return andon::idle_severity(static_cast<double>(idle.duration_secs),
                              static_cast<double>(idle.timeout_secs));
}

std::string message_of(const ThermalThrottling& hot) {
  return fmt::format("GPU {}: temperature is {} C, threshold {} C", hot.device,
                     rounded_text(hot.temp), hot.threshold);
}
std::string message_of(const MemoryPressure& full) {
  return fmt::format("GPU {}: memory is {} % used, threshold {} %", full.device,
                     rounded_text(full.used_percent), full.threshold);
}
std::string message_of(const PowerLimitReached& power) {
  return fmt::format("GPU {}: power is {} % of its limit, threshold {} %", power.device,
                     rounded_text(power.power_percent), power.threshold);
}
std::string message_of(const GpuIdle& idle) {
  return fmt::format("GPU {}: idle for {} s, threshold {} s: possible hang", idle.device,
                     idle.duration_secs, idle.timeout_secs);
}

using std::chrono::nanoseconds;

// Unsigned, because the distance between the ends of a clock's range overflows a signed count.
std::uint64_t seconds_between(nanoseconds before, nanoseconds now) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const auto count = [](nanoseconds time) { return static_cast<std::uint64_t>(time.count()); };
  return (count(now) - count(before)) / kSecond;
}

bool is_idle(const GpuMetrics& gpu) {
  return gpu.utilization_percent == 0.0 && gpu.in_use.value_or(true);
}

// A missing value reaches nothing, and neither does NaN.
bool is_reached(std::optional<double> value, double threshold) {
  return value && *value >= threshold;
}

void check_now(const GpuMetrics& gpu, const AndonThresholds& at, std::vector<Alert>& alerts) {
  const std::uint32_t device = gpu.device_id;
  if (const auto celsius = gpu.temperature_celsius; is_reached(celsius, at.thermal_threshold)) {
    alerts.push_back({ThermalThrottling{device, *celsius, at.thermal_threshold}});
  }
  if (const auto used = gpu.memory_percent(); is_reached(used, at.memory_threshold)) {
    alerts.push_back({MemoryPressure{device, *used, at.memory_threshold}});
  }
  if (const auto power = gpu.power_percent(); is_reached(power, at.power_threshold)) {
    alerts.push_back({PowerLimitReached{device, *power, at.power_threshold}});
  }
}

}  // namespace

std::string_view v0::name_of(AlertLevel level) {
  return enum_name(level);
}

std::uint32_t Alert::device() const {
  return std::visit([](const auto& found) { return found.device; }, kind);
}

int Alert::severity() const {
  return std::visit([](const auto& found) { return severity_of(found); }, kind);
}

AlertLevel Alert::level() const {
  return andon::level_of(severity());
}

std::string Alert::message() const {
  return std::visit([](const auto& found) { return message_of(found); }, kind);
}

std::string Alert::line() const {
  return fmt::format("ALERT [severity {}]: {}", severity(), message());
}

std::vector<Alert> v0::Andon::check(std::span<const GpuMetrics> metrics) {
  return check(metrics, BootClock::now().time_since_epoch());
}

std::vector<Alert> v0::Andon::check(std::span<const GpuMetrics> metrics, nanoseconds now) {
  std::vector<Alert> alerts;
  const auto before = std::exchange(idle_, {});  // GPUs that are not given now are removed
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
