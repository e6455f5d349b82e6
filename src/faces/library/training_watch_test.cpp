#include "library/training_watch.h"

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

class TrainingWatchTest : public ::testing::Test {
 protected:
  std::vector<Alert> look(const GpuMetrics& gpu) { return watch_.look({gpu}, now_ += 1s); }
  // One sample, whose news are answered so.
  std::size_t look(const GpuMetrics& gpu, TrainingAction answer) {
    const auto news = look(gpu);
    for (const Alert& alert : news) watch_.answer(alert, answer);
    return news.size();
  }

  TrainingWatch watch_{AndonThresholds{}};
  std::chrono::nanoseconds now_{};
};

TEST_F(TrainingWatchTest, TellsAnAlertWhenItTripsAndWhenItsLevelRises) {
  RecordProperty("contract", "C12");
  EXPECT_EQ(look(gpu_at(79), keep_going), 0U);
  EXPECT_EQ(look(gpu_at(81), keep_going), 1U);
  EXPECT_EQ(look(gpu_at(83), keep_going), 0U);
  EXPECT_EQ(look(gpu_at(90), keep_going), 1U) << "an error by now";
  EXPECT_EQ(look(gpu_at(81), keep_going), 0U);
  EXPECT_EQ(look(gpu_at(90), keep_going), 0U) << "as bad as it was told before";
  EXPECT_EQ(look(gpu_at(60), keep_going), 0U);
  EXPECT_EQ(look(gpu_at(81), keep_going), 1U) << "another one";
  EXPECT_EQ(watch_.action(), keep_going);
}

TEST_F(TrainingWatchTest, PausesUntilTheAlertIsOver) {
  RecordProperty("contract", "C12");
  look(gpu_at(85), pause);
  EXPECT_EQ(watch_.action(), pause);
  look(gpu_at(80), keep_going);
  EXPECT_EQ(watch_.action(), pause);
  look(gpu_at(79.9), keep_going);
  EXPECT_EQ(watch_.action(), keep_going);
  EXPECT_EQ(watch_.cause(), (Alert{ThermalThrottling{0, 85, 80}}));
}

TEST_F(TrainingWatchTest, WhatCannotBeReadAnyMoreIsNotOver) {
  RecordProperty("contract", "C12");
  look(gpu_at(85), pause);
  look(GpuMetrics{}, keep_going);
  EXPECT_EQ(watch_.action(), pause) << "no temperature";
  EXPECT_TRUE(watch_.look({}, now_ += 1s).empty());
  EXPECT_EQ(watch_.action(), pause) << "no GPU";
  look(gpu_at(60), keep_going);
  EXPECT_EQ(watch_.action(), keep_going);
}

TEST_F(TrainingWatchTest, GoesOnWhenItIsToldToWhateverTheAlertDoes) {
  RecordProperty("contract", "C12");
  look(gpu_at(85), pause);
  watch_.resume();
  EXPECT_EQ(watch_.action(), keep_going);
  look(gpu_at(85), pause);
  EXPECT_EQ(watch_.action(), keep_going) << "nothing new";
  look(gpu_at(95), pause);
  EXPECT_EQ(watch_.action(), pause) << "worse";
}

TEST_F(TrainingWatchTest, TheLastAnswerToAnAlertCounts) {
  look(gpu_at(85), pause);
  look(gpu_at(95), keep_going);
  EXPECT_EQ(watch_.action(), keep_going);
}

TEST_F(TrainingWatchTest, StopsForGood) {
  RecordProperty("contract", "C12");
  look(gpu_at(85), stop);
  look(gpu_at(40), keep_going);
  watch_.resume();
  EXPECT_EQ(watch_.action(), stop);
}

TEST_F(TrainingWatchTest, IsPausedByHandUntilItIsResumedByHand) {
  watch_.pause();
  look(gpu_at(40), keep_going);
  EXPECT_EQ(watch_.action(), pause);
  watch_.resume();
  EXPECT_EQ(watch_.action(), keep_going);
}

TEST_F(TrainingWatchTest, DoesNotTakeAPauseForAHang) {
  RecordProperty("contract", "C12 C8");
  watch_.pause();
  look(gpu_at(40, 0));
  now_ += 1h;
  EXPECT_TRUE(look(gpu_at(40, 0)).empty());
  watch_.resume();
  look(gpu_at(40, 0));
  now_ += 1h;
  EXPECT_EQ(look(gpu_at(40, 0)).size(), 1U);
}

}  // namespace
}  // namespace gpuyard::library
