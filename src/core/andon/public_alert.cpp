// What an alert says of itself.
#include <cmath>

#include <fmt/format.h>

#include "andon/severity.h"
#include "base/record.h"
#include "gpuyard/andon.h"

namespace gpuyard {
namespace {

// "87", "95.2": what is told of a reading.
std::string shown(double value) {
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
  return fmt::format("GPU {}: temperature is {} C, threshold {} C", hot.device, shown(hot.temp),
                     hot.threshold);
}
std::string message_of(const MemoryPressure& full) {
  return fmt::format("GPU {}: memory is {} % used, threshold {} %", full.device,
                     shown(full.used_percent), full.threshold);
}
std::string message_of(const PowerLimitReached& power) {
  return fmt::format("GPU {}: power is {} % of its limit, threshold {} %", power.device,
                     shown(power.power_percent), power.threshold);
}
std::string message_of(const GpuIdle& idle) {
  return fmt::format("GPU {}: idle for {} s, threshold {} s: possible hang", idle.device,
                     idle.duration_secs, idle.timeout_secs);
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

}  // namespace gpuyard
