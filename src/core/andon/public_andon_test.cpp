// The alerts that trip, and since when; the test sets the clock.
#include <array>
#include <limits>

#include <gtest/gtest.h>

#include "gpuyard/andon.h"

namespace gpuyard {
namespace {

const Alert kHot{ThermalThrottling{2, 87, 80}};
const Alert kFull{MemoryPressure{0, 95.2, 90}};
const Alert kPower{PowerLimitReached{1, 98.44, 97.5}};
const Alert kIdle{GpuIdle{3, 612, 300}};

TEST(Alert, OfEachKindNamesGpuValueAndThreshold) {
  RecordProperty("contract", "C8 C9");
  EXPECT_EQ(kHot.message(), "GPU 2: temperature is 87 C, threshold 80 C");
  EXPECT_EQ(kFull.message(), "GPU 0: memory is 95.2 % used, threshold 90 %");
  EXPECT_EQ(kPower.message(), "GPU 1: power is 98.4 % of its limit, threshold 97.5 %");
  EXPECT_EQ(kIdle.message(), "GPU 3: idle for 612 s, threshold 300 s: possible hang");
}

TEST(Alert, OfEachKindHasItsOwnSeverity) {
  RecordProperty("contract", "C9");
  EXPECT_EQ(kHot.severity(), 57);
  EXPECT_EQ(kFull.severity(), 80);
  EXPECT_EQ(kPower.severity(), 50);
  EXPECT_EQ(kIdle.severity(), 90);
}

TEST(Alert, LineIsForTerminal) {
  RecordProperty("contract", "C9");
  EXPECT_EQ(kHot.line(), "ALERT [severity 57]: GPU 2: temperature is 87 C, threshold 80 C");
}

TEST(Alert, HasALevelAndAGpu) {
  RecordProperty("contract", "C9");
  EXPECT_EQ(kIdle.device(), 3U);
  EXPECT_EQ(kIdle.level(), AlertLevel::critical);
  EXPECT_EQ(name_of(kIdle.level()), "critical");
  EXPECT_EQ(name_of(kHot.level()), "warning");
}

}  // namespace

namespace {

using namespace std::chrono_literals;

GpuMetrics busy(std::uint32_t index = 0) {
  return {index, "H100", 60, 80, 40'000'000'000, 80'000'000'000, 300, 700, {}};
}

GpuMetrics idle(std::uint32_t index = 0) {
  GpuMetrics gpu = busy(index);
  gpu.utilization_percent = 0;
  return gpu;
}

using Alerts = std::vector<Alert>;

Alerts check(v0::Andon& andon, const GpuMetrics& gpu, std::chrono::nanoseconds now = 1s) {
  return andon.check(std::array{gpu}, now);
}

TEST(Andon, DefaultThresholdsMatchContract) {
  RecordProperty("contract", "C6 C7");
  const AndonThresholds thresholds = v0::Andon().thresholds();
  EXPECT_EQ(thresholds.thermal_threshold, 80);
  EXPECT_EQ(thresholds.memory_threshold, 90);
  EXPECT_EQ(thresholds.power_threshold, 95);
  EXPECT_EQ(thresholds.idle_timeout_secs, 300U);
}

TEST(Andon, TripsWhenAThresholdIsReached) {
  RecordProperty("contract", "C6 C8 C9");
  v0::Andon andon;
  GpuMetrics gpu = busy(1);
  gpu.temperature_celsius = 80;
  gpu.memory_used_bytes = 72'000'000'000;
  gpu.power_watts = 665;
  EXPECT_EQ(check(andon, gpu), (Alerts{{ThermalThrottling{1, 80, 80}},
                                       {MemoryPressure{1, 90, 90}},
                                       {PowerLimitReached{1, 95, 95}}}));
  gpu.temperature_celsius = 79.9;
  gpu.memory_used_bytes = 71'999'999'999;
  gpu.power_watts = 664.9;
  EXPECT_EQ(check(andon, gpu), Alerts{});
}

TEST(Andon, CustomThresholdsAreUsed) {
  RecordProperty("contract", "C6 C7");
  v0::Andon andon({.thermal_threshold = 55,
                   .memory_threshold = 40,
                   .power_threshold = 30,
                   .idle_timeout_secs = 10});
  EXPECT_EQ(check(andon, busy()).size(), 3U);
  EXPECT_EQ(check(andon, idle(), 20s).size(), 3U);
  EXPECT_EQ(check(andon, idle(), 30s).back(), (Alert{GpuIdle{0, 10, 10}}));
}

TEST(Andon, EachHotGpuYieldsSingleAlert) {
  RecordProperty("contract", "C6");
  v0::Andon andon;
  std::array gpus = {busy(0), busy(1), busy(5)};
  gpus[0].temperature_celsius = 85;
  gpus[2].temperature_celsius = 90;
  EXPECT_EQ(andon.check(gpus),
            (Alerts{{ThermalThrottling{0, 85, 80}}, {ThermalThrottling{5, 90, 80}}}));
  EXPECT_EQ(andon.check({}), Alerts{});
}

TEST(Andon, IdleTimeFollowsClockNotChecks) {
  RecordProperty("contract", "C6 C8");
  v0::Andon andon;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(check(andon, idle(), 1s), Alerts{});
  EXPECT_EQ(check(andon, idle(), 300s), Alerts{}) << "299 s";
  EXPECT_EQ(check(andon, idle(), 301s), (Alerts{{GpuIdle{0, 300, 300}}}));
  EXPECT_EQ(check(andon, idle(), 501s), (Alerts{{GpuIdle{0, 500, 300}}}));
}

TEST(Andon, OnlyExactlyZeroUtilizationIsIdle) {
  RecordProperty("contract", "C8");
  v0::Andon andon;
  GpuMetrics gpu = idle();
  gpu.utilization_percent = 0.1;
  check(andon, gpu, 1s);
  EXPECT_EQ(check(andon, gpu, 1000s), Alerts{});
  gpu.utilization_percent = -0.0;
  check(andon, gpu, 2000s);
  EXPECT_EQ(check(andon, gpu, 2300s).size(), 1U);
}

// Idle at 0 s, something at 200 s, idle from 201 s on.
void expect_idle_restart_after(const std::vector<GpuMetrics>& something) {
  v0::Andon andon;
  check(andon, idle(), 0s);
  EXPECT_EQ(andon.check(something, 200s), Alerts{});
  check(andon, idle(), 201s);
  EXPECT_EQ(check(andon, idle(), 500s), Alerts{});
  EXPECT_EQ(check(andon, idle(), 501s), (Alerts{{GpuIdle{0, 300, 300}}}));
}

TEST(Andon, BusyGpuRestartsIdleTime) {
  RecordProperty("contract", "C8");
  expect_idle_restart_after({busy()});
}

TEST(Andon, MissingUtilizationRestartsIdleTime) {
  RecordProperty("contract", "C8");
  GpuMetrics unknown = idle();
  unknown.utilization_percent.reset();
  expect_idle_restart_after({unknown});
}

TEST(Andon, GpuAbsentFromCheckRestartsIdleTime) {
  RecordProperty("contract", "C8");
  expect_idle_restart_after({busy(7)});
}

TEST(Andon, UnusedGpuYieldsNoIdleAlert) {
  RecordProperty("contract", "C8");
  GpuMetrics unused = idle();
  unused.in_use = false;
  expect_idle_restart_after({unused});
  v0::Andon andon;
  for (const auto now : {0s, 1000s, 2000s}) EXPECT_EQ(check(andon, unused, now), Alerts{});
  unused.in_use = true;
  check(andon, unused, 3000s);
  EXPECT_EQ(check(andon, unused, 3300s).size(), 1U);
}

TEST(Andon, BackwardClockStepRestartsIdleTime) {
  RecordProperty("contract", "C8");
  v0::Andon andon;
  check(andon, idle(), 1000s);
  EXPECT_EQ(check(andon, idle(), 1200s), Alerts{});
  EXPECT_EQ(check(andon, idle(), 100s), Alerts{});
  EXPECT_EQ(check(andon, idle(), 399s), Alerts{});
  EXPECT_EQ(check(andon, idle(), 400s), (Alerts{{GpuIdle{0, 300, 300}}}));
}

TEST(Andon, IdleTimeSpansWholeClockRange) {
  v0::Andon andon;
  check(andon, idle(), std::chrono::nanoseconds::min());
  EXPECT_EQ(check(andon, idle(), std::chrono::nanoseconds::max()),
            (Alerts{{GpuIdle{0, 18'446'744'073, 300}}}));
}

// Mistakes that others have made.

TEST(Andon, MissingMetricsYieldNoAlert) {
  RecordProperty("contract", "C6 C8");
  v0::Andon andon({.thermal_threshold = 0,
                   .memory_threshold = 0,
                   .power_threshold = 0,
                   .idle_timeout_secs = 0});
  GpuMetrics nothing;
  EXPECT_EQ(check(andon, nothing), Alerts{});
  nothing.memory_used_bytes = 80'000'000'000;
  nothing.power_watts = 700;
  EXPECT_EQ(check(andon, nothing), Alerts{}) << "a part of nothing known";
}

TEST(Andon, NonFiniteThresholdOrValueYieldsNoAlert) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  GpuMetrics gpu = busy();
  gpu.temperature_celsius = 1000;
  for (const double threshold : {kInfinity, kNan}) {
    v0::Andon andon({.thermal_threshold = threshold});
    EXPECT_EQ(check(andon, gpu), Alerts{});
  }
  gpu.temperature_celsius = kNan;
  v0::Andon andon;
  EXPECT_EQ(check(andon, gpu), Alerts{});
}

TEST(Andon, CopyHasOwnIdleHistory) {
  v0::Andon first;
  check(first, idle(), 0s);
  v0::Andon second = first;
  check(first, busy(), 100s);
  EXPECT_EQ(check(first, idle(), 300s), Alerts{});
  EXPECT_EQ(check(second, idle(), 300s).size(), 1U);
}

}  // namespace
}  // namespace gpuyard
