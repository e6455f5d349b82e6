#include "core/history/rings.h"

#include <random>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/history/query.h"
#include "core/history/timeline.h"

namespace gpuyard::history {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{1h};

DeviceState gpu(const std::string& uuid, TimePoint taken, std::int64_t milliwatts,
                std::uint32_t index = 0) {
  DeviceState state;
  state.info = {uuid, index, uuid, "0000:01:00.0", "GPU", {}};
  state.sample.set({Metric::power_draw, 0, taken, milliwatts});
  return state;
}

Snapshot at(TimePoint taken, std::vector<DeviceState> devices) {
  Snapshot snapshot;
  snapshot.taken = taken;
  snapshot.devices = std::move(devices);
  return snapshot;
}

std::size_t readings_of(const Rings& rings, const std::string& uuid) {
  const auto* known = rings.find(uuid);
  const Series* series = known != nullptr ? known->find(Metric::power_draw, 0) : nullptr;
  return series != nullptr ? series->readings(0).points(0, INT64_MAX).size() : 0;
}

TEST(Rings, AStaleReadingIsNoPoint) {
  Rings rings;
  rings.append(at(kStart, {gpu("A", kStart, 1)}));
  rings.append(at(kStart + 1s, {gpu("A", kStart, 1)}));
  rings.append(at(kStart + 2s, {gpu("A", kStart + 2s, 2)}));
  EXPECT_EQ(readings_of(rings, "A"), 2U);
}

TEST(Rings, AMissingReadingIsNoPoint) {
  Rings rings;
  rings.append(at(kStart, {gpu("A", kStart, 1)}));
  DeviceState lost = gpu("A", kStart, 1);
  lost.sample.set({Metric::power_draw, 0, kStart + 1s, Missing{MissingReason::device_lost, ""}});
  rings.append(at(kStart + 1s, {lost}));
  EXPECT_EQ(readings_of(rings, "A"), 1U);
}

TEST(Rings, GpuReturningUnderNewIndexContinues) {
  Rings rings;
  rings.append(at(kStart, {gpu("A", kStart, 1, 0), gpu("B", kStart, 1, 1)}));
  rings.append(at(kStart + 1s, {gpu("B", kStart + 1s, 1, 0)}));
  rings.append(at(kStart + 2s, {gpu("B", kStart + 2s, 1, 0), gpu("A", kStart + 2s, 1, 1)}));
  EXPECT_EQ(readings_of(rings, "A"), 2U);
  EXPECT_EQ(readings_of(rings, "B"), 3U);
}

TEST(Rings, GpuThatFailedToOpenIsIgnored) {
  Rings rings;
  DeviceState closed = gpu("", kStart, 1);
  rings.append(at(kStart, {closed}));
  EXPECT_TRUE(rings.gpus().empty());
}

TEST(Rings, InventoryAndWordsAreNotRemembered) {
  Rings rings;
  DeviceState state = gpu("A", kStart, 1);
  state.sample.set({Metric::power_limit_max, 0, kStart, 700'000});
  state.sample.set({Metric::throttle_reasons, 0, kStart, 4});
  state.sample.set({Metric::ecc_mode, 0, kStart, 1});
  state.sample.set({Metric::serial, 0, kStart, std::string("1")});
  state.sample.set({Metric::fan_speed, 1, kStart, 30});
  rings.append(at(kStart, {state}));
  ASSERT_EQ(rings.find("A")->series.size(), 2U);
  EXPECT_NE(rings.find("A")->find(Metric::fan_speed, 1), nullptr);
  EXPECT_EQ(rings.find("A")->find(Metric::fan_speed, 0), nullptr);
}

TEST(Rings, GpuAbsentForDayIsEvicted) {
  Rings rings;
  rings.append(at(kStart, {gpu("A", kStart, 1), gpu("B", kStart, 1)}));
  for (auto now = kStart; now < kStart + 26h; now += 1min)
    rings.append(at(now, {gpu("B", now, 1)}));
  EXPECT_EQ(rings.find("A"), nullptr);
  EXPECT_NE(rings.find("B"), nullptr);
}

TEST(Rings, ExcessGpusEvictLongestAbsent) {
  Rings rings;
  for (std::size_t i = 0; i < kMaxGpus + 10; ++i) {
    const auto now = kStart + std::chrono::seconds(i);
    rings.append(at(now, {gpu("GPU-" + std::to_string(i), now, 1)}));
  }
  EXPECT_EQ(rings.gpus().size(), kMaxGpus);
  EXPECT_EQ(rings.find("GPU-0"), nullptr);
  EXPECT_NE(rings.find("GPU-137"), nullptr);
}

// Appends noise of 63 bits in every number of every row, which no coding makes smaller.
TEST(Rings, ByteLimitHoldsForIncompressibleData) {
  constexpr std::size_t kLimit = std::size_t{256} * 1024;
  Rings rings(kLimit);
  std::mt19937_64 random(1);
  std::size_t most = 0;
  for (int second = 0; second < 4000; ++second) {
    const auto now = kStart + std::chrono::seconds(second);
    DeviceState state = gpu("A", now, static_cast<std::int64_t>(random()));
    for (const MetricRow* row : recorded_rows()) {
      if (row->dimension != Dimension::none) continue;
      state.sample.set({row->metric, 0, now, static_cast<std::int64_t>(random())});
    }
    rings.append(at(now, {std::move(state)}));
    std::size_t bytes = 0;
    for (const Series& series : rings.find("A")->series) bytes += series.bytes();
    most = std::max(most, bytes);
  }
  EXPECT_LE(most, kLimit + std::size_t{64} * 1024) << "one round of closing blocks is over it";
  EXPECT_LE(rings.find("A")->bytes, kLimit);
  EXPECT_GT(readings_of(rings, "A"), 30U) << "the newest are still there";
}

}  // namespace

namespace {

constexpr std::int64_t kSecond = 1000;

Series one(std::int64_t cadence_ms = kSecond) {
  return {Metric::power_draw, 0, cadence_ms};
}

TEST(Series, AReadingThatIsNotNewerIsNoPoint) {
  Series series = one();
  EXPECT_TRUE(series.append(5000, 1));
  EXPECT_FALSE(series.append(5000, 1));
  EXPECT_FALSE(series.append(4000, 2));
  EXPECT_TRUE(series.append(6000, 3));
  EXPECT_EQ(series.readings(0).points(0, INT64_MAX), (std::vector<Point>{{5000, 1}, {6000, 3}}));
}

RC_GTEST_PROP(Series, ReadValuesEqualWrittenValues, (const std::vector<std::int64_t>& values)) {
  Series series = one();
  std::vector<Point> fed;
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Gaps and jitter.
    const std::int64_t late =
        *rc::gen::elementOf(std::vector<std::int64_t>{0, 0, 0, 3, 700, 5000, 3600000});
    const std::int64_t at_ms = (fed.empty() ? 100'000 : fed.back().at_ms + kSecond) + late;
    RC_ASSERT(series.append(at_ms, values[i]));
    fed.push_back({at_ms, values[i]});
  }
  const auto back = series.readings(0).points(0, INT64_MAX);
  RC_ASSERT(back.size() == fed.size());
  for (std::size_t i = 0; i < fed.size(); ++i) {
    RC_ASSERT(back[i].value == fed[i].value);
    RC_ASSERT(std::abs(back[i].at_ms - fed[i].at_ms) <= kMaxJitterMs);
    if (i > 0) RC_ASSERT(back[i - 1].at_ms < back[i].at_ms);
  }
}

RC_GTEST_PROP(Series, AggregatesMatchTheirReadingsExactly,
              (const std::vector<std::int16_t>& values)) {
  Series series = one();
  std::int64_t at_ms = 7'123;
  for (const std::int16_t value : values) {
    series.append(at_ms, value);
    at_ms += *rc::gen::elementOf(
        std::vector<std::int64_t>{kSecond, kSecond, 9 * kSecond, 200 * kSecond});
  }
  const auto readings = to_buckets(series.readings(0).points(0, INT64_MAX));
  const auto tens = series.ten_second_buckets(0).points(0, INT64_MAX);
  RC_ASSERT(downsample(readings, kTenSecondsMs) == tens);
  RC_ASSERT(downsample(readings, kMinuteMs) == downsample(tens, kMinuteMs));
}

TEST(Series, JitterOfMillisecondsIsNotKept) {
  Series series = one();
  for (const std::int64_t at_ms : {10'000, 11'003, 11'998, 13'001, 14'060}) series.append(at_ms, 1);
  const auto points = series.readings(0).points(0, INT64_MAX);
  EXPECT_EQ(points[3].at_ms, 13'000);
  EXPECT_EQ(points[4].at_ms, 14'060) << "beyond jitter it is its own time";
}

TEST(Series, LateAndNextReadingAreBothKept) {
  Series series = one();
  series.append(10'000, 1);
  series.append(10'960, 2);  // kept as of 11'000
  series.append(10'970, 3);
  const auto points = series.readings(0).points(0, INT64_MAX);
  EXPECT_EQ(points, (std::vector<Point>{{10'000, 1}, {11'000, 2}, {11'001, 3}}));
}

TEST(Series, EvictionKeepsHourOfReadingsDayOfBuckets) {
  Series series = one();
  constexpr std::int64_t kHour = 3600;
  constexpr std::int64_t kDay = 24 * kHour;
  const std::int64_t start = 1'000'000;
  for (std::int64_t i = 0; i < kDay + 2 * kHour; ++i) {
    series.append(start + i * kSecond, i % 90);
    if (i % 60 == 0) series.evict_expired(start + i * kSecond);
  }
  const std::int64_t now = start + (kDay + 2 * kHour) * kSecond;
  const auto readings = series.readings(0).points(0, INT64_MAX);
  EXPECT_GE(readings.size(), 3600U);
  EXPECT_LE(readings.size(), 3600U + 2 * kMaxBlockPoints);
  EXPECT_EQ(series.readings_since_ms(), readings.front().at_ms - kSecond + 1);
  const auto tens = series.ten_second_buckets(0).points(0, INT64_MAX);
  EXPECT_GE(tens.size(), 8640U);
  EXPECT_LE(tens.size(), 8640U + 2 * kMaxBlockPoints);
  EXPECT_LE(series.ten_seconds_since_ms(), now - kTenSecondRetentionMs);
  EXPECT_GT(series.ten_seconds_since_ms(), start);
}

TEST(Series, MinutesStartAtMinuteOfFirstReading) {
  Series series = one();
  series.append(3 * kMinuteMs + 20'000, 1);
  EXPECT_EQ(series.minutes_since_ms(), 3 * kMinuteMs);
}

TEST(Series, ACounterIsKeptLikeAnythingElse) {
  Series series = one();
  std::vector<std::int64_t> joules;
  for (int i = 0; i < 400; ++i) {
    joules.push_back(45'000'000'000 + i * 612'345LL + i % 7);
    series.append(1'000'000 + i * kSecond, joules.back());
  }
  const auto points = series.readings(0).points(0, INT64_MAX);
  ASSERT_EQ(points.size(), joules.size());
  for (std::size_t i = 0; i < joules.size(); ++i) EXPECT_EQ(points[i].value, joules[i]);
  const auto tens = series.ten_second_buckets(0).points(0, INT64_MAX);
  EXPECT_EQ(tens.front().aggregate.min, joules.front());
  EXPECT_EQ(tens.back().aggregate.max, joules.back());
}

}  // namespace
}  // namespace gpuyard::history
