#include "gpu/device/gpu_snapshot.h"

#include <limits>
#include <random>
#include <sstream>

#include <gtest/gtest.h>

#include "gpu/device/catalog.h"

namespace gpuyard {
namespace {

constexpr std::int64_t kTotalMemory = 80'000'000'000;

DeviceState gpu() {
  DeviceState device;
  device.info.index = 3;
  device.sample.set({Metric::memory_total, 0, {}, kTotalMemory});
  device.sample.set({Metric::memory_used, 0, {}, std::int64_t{30'000'000'001}});
  device.sample.set({Metric::temperature_core, 0, {}, std::int64_t{71}});
  device.sample.set({Metric::utilization_gpu, 0, {}, std::int64_t{93}});
  device.sample.set({Metric::ecc_uncorrected_aggregate, 0, {}, std::int64_t{5}});
  device.sample.set({Metric::ecc_uncorrected_volatile, 0, {}, std::int64_t{2}});
  return device;
}

void lose(DeviceState& device, Metric metric, MissingReason why) {
  device.sample.set({metric, 0, {}, Missing{why, ""}});
}

TEST(GpuSnapshot, CompleteReadingsFillAllFields) {
  RecordProperty("contract", "A3 A4 A5 A6 A7 A8 A9");
  EXPECT_EQ(gpu_snapshot_of(gpu()), (GpuSnapshot{3, kTotalMemory, 30'000'000'001, 71, 93, 5}));
}

TEST(GpuSnapshot, UnsupportedReadingIsEmptyNotZero) {
  RecordProperty("contract", "A3 A8 A9");
  DeviceState device = gpu();
  lose(device, Metric::utilization_gpu, MissingReason::not_supported);
  lose(device, Metric::ecc_uncorrected_aggregate, MissingReason::not_supported);
  lose(device, Metric::ecc_uncorrected_volatile, MissingReason::not_supported);
  const auto shown = gpu_snapshot_of(device);
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->utilisation_percent, std::nullopt);
  EXPECT_EQ(shown->ecc_errors_uncorrected, std::nullopt);
  EXPECT_EQ(shown->to_json(), R"({"id":3,"memory_total":80000000000,"memory_used":30000000001,)"
                              R"("temperature_celsius":71,"utilisation_percent":null,)"
                              R"("ecc_errors_uncorrected":null})");
}

TEST(GpuSnapshot, UnsupportedAggregateEccFallsBackToVolatile) {
  RecordProperty("contract", "A9");
  DeviceState device = gpu();
  lose(device, Metric::ecc_uncorrected_aggregate, MissingReason::not_supported);
  EXPECT_EQ(gpu_snapshot_of(device)->ecc_errors_uncorrected, 2U);
}

TEST(GpuSnapshot, FailedAggregateEccReadHasNoFallback) {
  RecordProperty("contract", "A9");
  DeviceState device = gpu();
  lose(device, Metric::ecc_uncorrected_aggregate, MissingReason::failed);
  EXPECT_EQ(gpu_snapshot_of(device)->ecc_errors_uncorrected, std::nullopt);
}

TEST(GpuSnapshot, AGpuWithoutMemoryOrTemperatureIsAbsent) {
  RecordProperty("contract", "A3");
  for (const Metric needed :
       {Metric::memory_total, Metric::memory_used, Metric::temperature_core}) {
    Snapshot snapshot;
    snapshot.devices = {gpu(), gpu()};
    lose(snapshot.devices[0], needed, MissingReason::no_permission);
    EXPECT_EQ(gpu_snapshots_of(snapshot).size(), 1U);
  }
}

TEST(GpuSnapshot, UnresponsiveGpuIsOmittedDespiteOldReadings) {
  RecordProperty("contract", "A3 A13");
  DeviceState device = gpu();
  device.condition = DeviceCondition::unresponsive;
  EXPECT_EQ(gpu_snapshot_of(device), std::nullopt);
}

TEST(GpuSnapshot, CanBeCopiedComparedAndPrinted) {
  RecordProperty("contract", "A2");
  const GpuSnapshot one = *gpu_snapshot_of(gpu());
  GpuSnapshot other = one;
  EXPECT_EQ(one, other);
  other.ecc_errors_uncorrected = std::nullopt;
  EXPECT_NE(one, other);
  std::ostringstream text;
  text << one << '\n' << other;
  EXPECT_EQ(
      text.str(),
      "GPU 3: 71 C, 93 % util, 30000000001 of 80000000000 B used, 5 uncorrectable ECC errors\n"
      "GPU 3: 71 C, 93 % util, 30000000001 of 80000000000 B used, - uncorrectable ECC errors");
}

TEST(GpuSnapshot, SurvivesJsonExactly) {
  RecordProperty("contract", "A2");
  constexpr auto kMaxValue = std::numeric_limits<std::uint64_t>::max();
  constexpr auto kColdest = std::numeric_limits<std::int64_t>::min();
  std::mt19937_64 random(7);
  std::vector<GpuSnapshot> made = {{}, {~0U, kMaxValue, kMaxValue, kColdest, ~0U, kMaxValue}};
  for (int i = 0; i < 2000; ++i) {
    GpuSnapshot one{static_cast<std::uint32_t>(random()), random(), random() >> (random() % 64),
                    static_cast<std::int64_t>(random()),  {},       {}};
    if (random() % 2 != 0) one.utilisation_percent = static_cast<std::uint32_t>(random() % 101);
    if (random() % 2 != 0) one.ecc_errors_uncorrected = random();
    made.push_back(one);
  }
  for (const GpuSnapshot& one : made) {
    const auto read = GpuSnapshot::from_json(one.to_json());
    ASSERT_TRUE(read) << one.to_json() << ": " << read.error().message;
    ASSERT_EQ(*read, one) << one.to_json();
  }
}

TEST(GpuSnapshot, BrokenJsonIsErrorWithPath) {
  RecordProperty("contract", "A2");
  const auto read = GpuSnapshot::from_json(
      R"({"id":0,"memory_total":-1,"memory_used":1.5,"temperature_celsius":"x"})");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::invalid);
  EXPECT_EQ(
      read.error().message,
      "/memory_total: expected an integer from 0 to 18446744073709551615; got -1; "
      "/memory_used: expected an integer; got 1.5; /temperature_celsius: expected an integer; "
      "got \"x\"");
}

}  // namespace

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

TEST(GpuMetrics, MissingReadingIsEmptyNotZero) {
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

TEST(GpuMetrics, OnlyComputeProcessesMarkGpuInUse) {
  RecordProperty("contract", "C8");
  EXPECT_EQ(metrics_of(device_with({})).in_use, std::nullopt) << "nobody told";
  EXPECT_EQ(metrics_of(device_with({{Metric::processes_compute, 2}})).in_use, true);
  EXPECT_EQ(
      metrics_of(device_with({{Metric::processes_compute, 0}, {Metric::processes_graphics, 1}}))
          .in_use,
      false);
}

TEST(GpuMetrics, MissingReadingIsDashInDisplayLine) {
  EXPECT_EQ(metrics_of(device_with({})).display_line(), "GPU 3: -°C, -% util, - GB / - GB");
}

TEST(GpuMetrics, ShareWithMissingPartIsEmpty) {
  EXPECT_EQ(metrics_of(device_with({{Metric::memory_used, 5}})).memory_percent(), std::nullopt);
  EXPECT_EQ(metrics_of(device_with({{Metric::power_limit, 5}})).power_percent(), std::nullopt);
}

TEST(GpuMetrics, ZeroTotalMemoryGivesEmptyPercent) {
  const auto metrics =
      metrics_of(device_with({{Metric::memory_used, 0}, {Metric::memory_total, 0}}));
  EXPECT_EQ(metrics.memory_percent(), std::nullopt);
}

}  // namespace
}  // namespace gpuyard
