// Properties of Andon that hold for all metrics, thresholds and clocks.
#include <array>
#include <optional>
#include <utility>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/andon/alert.h"
#include "core/andon/alert_severity.h"
#include "gpuyard/andon.h"

namespace gpuyard {
namespace {

using std::chrono::nanoseconds;

// Doubles of all sizes, and often one of the thresholds.
rc::Gen<double> number() {
  return rc::gen::oneOf(rc::gen::arbitrary<double>(),
                        rc::gen::element(0.0, 40.0, 80.0, 90.0, 95.0, 99.0, 100.0, 130.0),
                        rc::gen::map(rc::gen::inRange(-200, 2000),
                                     [](int tenths) { return static_cast<double>(tenths) / 10; }));
}

std::optional<double> maybe_number() {
  return *rc::gen::arbitrary<bool>() ? std::optional(*number()) : std::nullopt;
}

std::optional<std::uint64_t> maybe_bytes() {
  return *rc::gen::arbitrary<bool>() ? std::optional(*rc::gen::inRange<std::uint64_t>(0, 200))
                                     : std::nullopt;
}

GpuMetrics any_gpu() {
  GpuMetrics gpu;
  gpu.device_id = *rc::gen::inRange<std::uint32_t>(0, 3);
  gpu.temperature_celsius = maybe_number();
  gpu.utilization_percent = maybe_number();
  gpu.memory_used_bytes = maybe_bytes();
  gpu.memory_total_bytes = maybe_bytes();
  gpu.power_watts = maybe_number();
  gpu.power_limit_watts = maybe_number();
  gpu.in_use = *rc::gen::element<std::optional<bool>>(std::nullopt, true, false);
  return gpu;
}

AndonThresholds any_thresholds() {
  return {*number(), *number(), *number(), *rc::gen::arbitrary<std::uint64_t>()};
}

// Whether the metrics that an alert is based on were given.
bool is_known(const Alert& alert, const GpuMetrics& gpu) {
  if (std::holds_alternative<ThermalThrottling>(alert.kind)) return !!gpu.temperature_celsius;
  if (std::holds_alternative<MemoryPressure>(alert.kind)) {
    return gpu.memory_used_bytes && gpu.memory_total_bytes;
  }
  if (std::holds_alternative<PowerLimitReached>(alert.kind)) {
    return gpu.power_watts && gpu.power_limit_watts;
  }
  return gpu.utilization_percent == 0.0 && gpu.in_use != false;
}

RC_GTEST_PROP(AndonProperty, MissingReadingNeverFires, ()) {
  v0::Andon andon(any_thresholds());
  const auto steps = *rc::gen::inRange(1, 20);
  for (int step = 0; step < steps; ++step) {
    const GpuMetrics gpu = any_gpu();
    const nanoseconds now(*rc::gen::arbitrary<std::int64_t>());
    for (const Alert& alert : andon.check(std::array{gpu}, now)) {
      RC_ASSERT(is_known(alert, gpu));
      RC_ASSERT(alert.device() == gpu.device_id);
      RC_ASSERT(alert.severity() >= 0);
      RC_ASSERT(alert.severity() <= 100);
      RC_ASSERT(alert.line().starts_with("ALERT [severity "));
    }
  }
}

RC_GTEST_PROP(AndonProperty, SeverityNeverFallsWithTheExcess, ()) {
  const double threshold = *number();
  const double less = *number();
  const double more = *number();
  RC_PRE(less <= more);
  RC_ASSERT(andon::thermal_severity(less, threshold) <= andon::thermal_severity(more, threshold));
  RC_ASSERT(andon::memory_severity(less) <= andon::memory_severity(more));
  RC_ASSERT(andon::power_severity(less) <= andon::power_severity(more));
  RC_ASSERT(andon::idle_severity(less, threshold) <= andon::idle_severity(more, threshold));
}

// The rule in other words: the idle time is how long the clock has only gone on with the GPU idle.
RC_GTEST_PROP(AndonProperty, IdleTimeFollowsClockThroughJumps, ()) {
  constexpr std::uint64_t kTimeout = 5;
  v0::Andon andon({.idle_timeout_secs = kTimeout});
  bool is_idle = false;
  std::int64_t since = 0;
  std::int64_t last = 0;
  const auto steps = *rc::gen::inRange(1, 30);
  for (int step = 0; step < steps; ++step) {
    const auto now = last + *rc::gen::inRange<std::int64_t>(-4, 10);
    GpuMetrics gpu;
    gpu.utilization_percent = *rc::gen::weightedElement<double>({{6, 0.0}, {1, 50.0}});
    const bool was_idle = std::exchange(is_idle, gpu.utilization_percent == 0.0);
    if (!was_idle || now < last) since = now;
    last = now;
    std::vector<Alert> expected;
    const auto seconds = static_cast<std::uint64_t>(now - since);
    if (is_idle && seconds >= kTimeout) expected.push_back({GpuIdle{0, seconds, kTimeout}});
    RC_ASSERT(andon.check(std::array{gpu}, std::chrono::seconds(now)) == expected);
  }
}

}  // namespace
}  // namespace gpuyard
