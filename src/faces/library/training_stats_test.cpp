#include "faces/library/training_stats.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace gpuyard::library {
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
