#include "device/gpu_metrics.h"

#include <gtest/gtest.h>

#include "device/catalog.h"

namespace gpuyard {
namespace {

DeviceState device_with(const std::vector<std::pair<Metric, std::int64_t>>& numbers) {
  DeviceState device;
  device.info.index = 3;
  device.info.name = "NVIDIA H100 80GB HBM3";
  for (const auto& [metric, value] : numbers) device.sample.set({metric, 0, {}, value});
  return device;
}

GpuMetrics busy() {
  return metrics_of(device_with({{Metric::temperature_core, 45},
                                 {Metric::utilization_gpu, 80},
                                 {Metric::memory_used, 12'340'000'000},
                                 {Metric::memory_total, 80'000'000'000},
                                 {Metric::power_draw, 312'500},
                                 {Metric::power_limit, 625'000}}));
}

TEST(GpuMetrics, CarryTheFieldsThatScriptsKnow) {
  RecordProperty("contract", "C3 A4 A5 A7");
  const GpuMetrics metrics = busy();
  EXPECT_EQ(metrics.device_id, 3U);
  EXPECT_EQ(metrics.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(metrics.temperature_celsius, 45.0);
  EXPECT_EQ(metrics.utilization_percent, 80.0);
  EXPECT_EQ(metrics.memory_used_bytes, 12'340'000'000U);
  EXPECT_EQ(metrics.memory_total_bytes, 80'000'000'000U);
  EXPECT_EQ(metrics.power_watts, 312.5);
  EXPECT_EQ(metrics.power_limit_watts, 625.0);
}

TEST(GpuMetrics, DeriveTheSharesOfMemoryAndPower) {
  RecordProperty("contract", "C4");
  EXPECT_DOUBLE_EQ(*busy().memory_percent(), 15.425);
  EXPECT_DOUBLE_EQ(*busy().power_percent(), 50.0);
}

TEST(GpuMetrics, HaveADisplayLine) {
  RecordProperty("contract", "C5");
  EXPECT_EQ(busy().display_line(), "GPU 3: 45°C, 80% util, 12.3 GB / 80.0 GB");
}

TEST(GpuMetrics, WhatCannotBeReadIsEmptyNotZero) {
  RecordProperty("contract", "A8");
  DeviceState device = device_with({});
  device.sample = missing_sample(probes_of(Tier::fast) | probes_of(Tier::slow),
                                 {MissingReason::not_supported, ""}, {});
  GpuMetrics expected;
  expected.device_id = 3;
  expected.name = "NVIDIA H100 80GB HBM3";
  EXPECT_EQ(metrics_of(device), expected);
  EXPECT_EQ(expected.temperature_celsius, std::nullopt);
}

TEST(GpuMetrics, AZeroThatWasReadIsAZero) {
  const GpuMetrics idle = metrics_of(device_with({{Metric::utilization_gpu, 0}}));
  EXPECT_EQ(idle.utilization_percent, 0.0);
}

TEST(GpuMetrics, AGpuIsInUseByWhatComputesOnItAndNotByWhatDraws) {
  RecordProperty("contract", "C8");
  EXPECT_EQ(metrics_of(device_with({})).in_use, std::nullopt) << "nobody told";
  EXPECT_EQ(metrics_of(device_with({{Metric::processes_compute, 2}})).in_use, true);
  EXPECT_EQ(
      metrics_of(device_with({{Metric::processes_compute, 0}, {Metric::processes_graphics, 1}}))
          .in_use,
      false);
}

TEST(GpuMetrics, ADisplayLineShowsADashForWhatIsMissing) {
  EXPECT_EQ(metrics_of(device_with({})).display_line(), "GPU 3: -°C, -% util, - GB / - GB");
}

TEST(GpuMetrics, AShareIsEmptyWhereAPartIsMissing) {
  EXPECT_EQ(metrics_of(device_with({{Metric::memory_used, 5}})).memory_percent(), std::nullopt);
  EXPECT_EQ(metrics_of(device_with({{Metric::power_limit, 5}})).power_percent(), std::nullopt);
}

TEST(GpuMetrics, AShareOfNothingIsEmptyRatherThanInfinite) {
  const auto metrics =
      metrics_of(device_with({{Metric::memory_used, 0}, {Metric::memory_total, 0}}));
  EXPECT_EQ(metrics.memory_percent(), std::nullopt);
}

}  // namespace
}  // namespace gpuyard
