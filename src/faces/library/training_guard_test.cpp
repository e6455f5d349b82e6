#include "faces/library/training_guard.h"

#include <gtest/gtest.h>

namespace gpuyard::library {
namespace {

using namespace std::chrono_literals;
using enum TrainingAction;

GpuMetrics gpu_at(double celsius, double percent = 90) {
  GpuMetrics gpu;
  gpu.temperature_celsius = celsius;
  gpu.utilization_percent = percent;
  return gpu;
}

class TrainingGuardTest : public ::testing::Test {
 protected:
  std::vector<Alert> evaluate(const GpuMetrics& gpu) { return guard_.evaluate({gpu}, now_ += 1s); }
  // Takes one sample and answers all its new alerts alike.
  std::size_t evaluate(const GpuMetrics& gpu, TrainingAction answer) {
    const auto new_alerts = evaluate(gpu);
    for (const Alert& alert : new_alerts) guard_.record_action(alert, answer);
    return new_alerts.size();
  }

  TrainingGuard guard_{AndonThresholds{}};
  std::chrono::nanoseconds now_{};
};

TEST_F(TrainingGuardTest, AlertIsReportedOnFiringAndRisingLevel) {
  RecordProperty("contract", "C12");
  EXPECT_EQ(evaluate(gpu_at(79), keep_going), 0U);
  EXPECT_EQ(evaluate(gpu_at(81), keep_going), 1U);
  EXPECT_EQ(evaluate(gpu_at(83), keep_going), 0U);
  EXPECT_EQ(evaluate(gpu_at(90), keep_going), 1U) << "an error by now";
  EXPECT_EQ(evaluate(gpu_at(81), keep_going), 0U);
  EXPECT_EQ(evaluate(gpu_at(90), keep_going), 0U) << "as bad as it was told before";
  EXPECT_EQ(evaluate(gpu_at(60), keep_going), 0U);
  EXPECT_EQ(evaluate(gpu_at(81), keep_going), 1U) << "another one";
  EXPECT_EQ(guard_.action(), keep_going);
}

TEST_F(TrainingGuardTest, PausesUntilTheAlertIsOver) {
  RecordProperty("contract", "C12");
  evaluate(gpu_at(85), pause);
  EXPECT_EQ(guard_.action(), pause);
  evaluate(gpu_at(80), keep_going);
  EXPECT_EQ(guard_.action(), pause);
  evaluate(gpu_at(79.9), keep_going);
  EXPECT_EQ(guard_.action(), keep_going);
  EXPECT_EQ(guard_.cause(), (Alert{ThermalThrottling{0, 85, 80}}));
}

TEST_F(TrainingGuardTest, UnreadableMetricKeepsAlertFiring) {
  RecordProperty("contract", "C12");
  evaluate(gpu_at(85), pause);
  evaluate(GpuMetrics{}, keep_going);
  EXPECT_EQ(guard_.action(), pause) << "no temperature";
  EXPECT_TRUE(guard_.evaluate({}, now_ += 1s).empty());
  EXPECT_EQ(guard_.action(), pause) << "no GPU";
  evaluate(gpu_at(60), keep_going);
  EXPECT_EQ(guard_.action(), keep_going);
}

TEST_F(TrainingGuardTest, ResumeOverridesPauseUntilAlertWorsens) {
  RecordProperty("contract", "C12");
  evaluate(gpu_at(85), pause);
  guard_.resume();
  EXPECT_EQ(guard_.action(), keep_going);
  evaluate(gpu_at(85), pause);
  EXPECT_EQ(guard_.action(), keep_going) << "nothing new";
  evaluate(gpu_at(95), pause);
  EXPECT_EQ(guard_.action(), pause) << "worse";
}

TEST_F(TrainingGuardTest, TheLastAnswerToAnAlertCounts) {
  evaluate(gpu_at(85), pause);
  evaluate(gpu_at(95), keep_going);
  EXPECT_EQ(guard_.action(), keep_going);
}

TEST_F(TrainingGuardTest, StopsForGood) {
  RecordProperty("contract", "C12");
  evaluate(gpu_at(85), stop);
  evaluate(gpu_at(40), keep_going);
  guard_.resume();
  EXPECT_EQ(guard_.action(), stop);
}

TEST_F(TrainingGuardTest, ManualPauseLastsUntilResume) {
  guard_.pause();
  evaluate(gpu_at(40), keep_going);
  EXPECT_EQ(guard_.action(), pause);
  guard_.resume();
  EXPECT_EQ(guard_.action(), keep_going);
}

TEST_F(TrainingGuardTest, DoesNotTakeAPauseForAHang) {
  RecordProperty("contract", "C12 C8");
  guard_.pause();
  evaluate(gpu_at(40, 0));
  now_ += 1h;
  EXPECT_TRUE(evaluate(gpu_at(40, 0)).empty());
  guard_.resume();
  evaluate(gpu_at(40, 0));
  now_ += 1h;
  EXPECT_EQ(evaluate(gpu_at(40, 0)).size(), 1U);
}

}  // namespace

namespace {

using Numbers = std::vector<std::pair<Metric, std::int64_t>>;

Snapshot sample_at(int second, const Numbers& numbers, std::uint32_t index = 0) {
  Snapshot snapshot;
  DeviceState& device = snapshot.devices.emplace_back();
  device.info.index = index;
  const TimePoint taken{std::chrono::seconds(second)};
  for (const auto& [metric, value] : numbers) device.sample.set({metric, 0, taken, value});
  return snapshot;
}

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(TrainingStats, KeepsPeaksAndMeans) {
  RecordProperty("contract", "C12");
  TrainingStats book;
  book.add(sample_at(
      1,
      {{Metric::memory_used, 7}, {Metric::temperature_core, 60}, {Metric::utilization_gpu, 100}}));
  book.add(sample_at(
      2,
      {{Metric::memory_used, 9}, {Metric::temperature_core, 50}, {Metric::utilization_gpu, 50}}));
  EXPECT_EQ(book.samples(), 2U);
  EXPECT_EQ(book.gpus(), (std::vector<TrainingGpu>{{0, {}, 9U, 60.0, {}, 75.0}}));
}

TEST(TrainingStats, UnreadMetricsAreMissing) {
  RecordProperty("contract", "C12");
  TrainingStats book;
  book.add(sample_at(1, {}, 3));
  EXPECT_EQ(book.gpus(), (std::vector<TrainingGpu>{{3, {}, {}, {}, {}, {}}}));
  EXPECT_TRUE(TrainingStats().gpus().empty());
}

TEST(TrainingStats, AMissingSampleIsNotAZero) {
  TrainingStats book;
  book.add(sample_at(1, {{Metric::utilization_gpu, 80}}));
  book.add(sample_at(2, {}));
  EXPECT_EQ(book.gpus()[0].mean_utilization_percent, 80.0);
}

TEST(TrainingStats, CountsTheLongestReasonOfBeingSlowed) {
  RecordProperty("contract", "C12");
  TrainingStats book;
  book.add(sample_at(1, {{Metric::throttle_time_sw_thermal, 100 * kSecond},
                         {Metric::throttle_time_hw_thermal, 0}}));
  EXPECT_EQ(book.gpus()[0].throttled_seconds, 0.0) << "what was before does not count";
  book.add(sample_at(9, {{Metric::throttle_time_sw_thermal, 104 * kSecond},
                         {Metric::throttle_time_hw_thermal, 3 * kSecond}}));
  EXPECT_EQ(book.gpus()[0].throttled_seconds, 4.0);
}

TEST(TrainingStats, ACounterThatWasResetCountsOnFromZero) {
  TrainingStats book;
  int now = 0;
  for (const std::int64_t seconds : {100, 101, 2}) {
    book.add(sample_at(++now, {{Metric::throttle_time_sw_thermal, seconds * kSecond}}));
  }
  EXPECT_EQ(book.gpus()[0].throttled_seconds, 3.0);
}

TEST(TrainingStats, LateCounterReadingIsNoReset) {
  TrainingStats book;
  for (const int second : {100, 102, 101, 103}) {
    book.add(sample_at(second, {{Metric::throttle_time_sw_thermal, second * kSecond}}));
  }
  EXPECT_EQ(book.gpus()[0].throttled_seconds, 3.0);
}

TEST(TrainingStats, StartsOverButForItsCounters) {
  RecordProperty("contract", "C12");
  TrainingStats book;
  book.add(sample_at(
      1, {{Metric::temperature_core, 60}, {Metric::throttle_time_sw_thermal, 10 * kSecond}}));
  book.reset();
  EXPECT_TRUE(book.gpus().empty());
  EXPECT_EQ(book.samples(), 0U);
  book.add(sample_at(
      5, {{Metric::temperature_core, 50}, {Metric::throttle_time_sw_thermal, 12 * kSecond}}));
  EXPECT_EQ(book.gpus(), (std::vector<TrainingGpu>{{0, {}, {}, 50.0, 2.0, {}}}));
}

TEST(TrainingStats, UnreadCounterAfterResetIsMissing) {
  TrainingStats book;
  book.add(sample_at(2, {{Metric::throttle_time_sw_thermal, 10 * kSecond}}));
  book.reset();
  book.add(sample_at(1, {{Metric::throttle_time_sw_thermal, 9 * kSecond}}));
  book.add(sample_at(3, {{Metric::temperature_core, 50}}));
  EXPECT_EQ(book.gpus()[0].throttled_seconds, std::nullopt);
}

}  // namespace
}  // namespace gpuyard::library
