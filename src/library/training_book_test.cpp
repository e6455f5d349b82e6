#include "library/training_book.h"

#include <gtest/gtest.h>

namespace gpuyard::library {
namespace {

using Numbers = std::vector<std::pair<Metric, std::int64_t>>;

Snapshot sample(const Numbers& numbers, std::uint32_t index = 0) {
  Snapshot snapshot;
  DeviceState& device = snapshot.devices.emplace_back();
  device.info.index = index;
  for (const auto& [metric, value] : numbers) device.sample.set({metric, 0, {}, value});
  return snapshot;
}

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(TrainingBook, KeepsPeaksAndMeans) {
  RecordProperty("contract", "C12");
  TrainingBook book;
  book.add(sample(
      {{Metric::memory_used, 7}, {Metric::temperature_core, 60}, {Metric::utilization_gpu, 100}}));
  book.add(sample(
      {{Metric::memory_used, 9}, {Metric::temperature_core, 50}, {Metric::utilization_gpu, 50}}));
  EXPECT_EQ(book.samples(), 2U);
  EXPECT_EQ(book.gpus(), (std::vector<TrainingGpu>{{0, {}, 9U, 60.0, {}, 75.0}}));
}

TEST(TrainingBook, WhatWasNeverReadIsMissing) {
  RecordProperty("contract", "C12");
  TrainingBook book;
  book.add(sample({}, 3));
  EXPECT_EQ(book.gpus(), (std::vector<TrainingGpu>{{3, {}, {}, {}, {}, {}}}));
  EXPECT_TRUE(TrainingBook().gpus().empty());
}

TEST(TrainingBook, AMissingSampleIsNotAZero) {
  TrainingBook book;
  book.add(sample({{Metric::utilization_gpu, 80}}));
  book.add(sample({}));
  EXPECT_EQ(book.gpus()[0].mean_utilization_percent, 80.0);
}

TEST(TrainingBook, CountsTheLongestReasonOfBeingSlowed) {
  RecordProperty("contract", "C12");
  TrainingBook book;
  book.add(sample(
      {{Metric::throttle_time_sw_thermal, 100 * kSecond}, {Metric::throttle_time_hw_thermal, 0}}));
  EXPECT_EQ(book.gpus()[0].throttled_seconds, 0.0) << "what was before does not count";
  book.add(sample({{Metric::throttle_time_sw_thermal, 104 * kSecond},
                   {Metric::throttle_time_hw_thermal, 3 * kSecond}}));
  EXPECT_EQ(book.gpus()[0].throttled_seconds, 4.0);
}

TEST(TrainingBook, ACounterThatWasResetCountsOnFromZero) {
  TrainingBook book;
  for (const std::int64_t seconds : {100, 101, 2}) {
    book.add(sample({{Metric::throttle_time_sw_thermal, seconds * kSecond}}));
  }
  EXPECT_EQ(book.gpus()[0].throttled_seconds, 3.0);
}

TEST(TrainingBook, StartsOverButForItsCounters) {
  RecordProperty("contract", "C12");
  TrainingBook book;
  book.add(
      sample({{Metric::temperature_core, 60}, {Metric::throttle_time_sw_thermal, 10 * kSecond}}));
  book.start_over();
  EXPECT_TRUE(book.gpus().empty());
  EXPECT_EQ(book.samples(), 0U);
  book.add(
      sample({{Metric::temperature_core, 50}, {Metric::throttle_time_sw_thermal, 12 * kSecond}}));
  EXPECT_EQ(book.gpus(), (std::vector<TrainingGpu>{{0, {}, {}, 50.0, 2.0, {}}}));
}

}  // namespace
}  // namespace gpuyard::library
