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
}  // namespace gpuyard::library
