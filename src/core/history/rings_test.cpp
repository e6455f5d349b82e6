#include "history/rings.h"

#include <random>

#include <gtest/gtest.h>

#include "history/remembered.h"

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
  rings.feed(at(kStart, {gpu("A", kStart, 1)}));
  rings.feed(at(kStart + 1s, {gpu("A", kStart, 1)}));
  rings.feed(at(kStart + 2s, {gpu("A", kStart + 2s, 2)}));
  EXPECT_EQ(readings_of(rings, "A"), 2U);
}

TEST(Rings, AMissingReadingIsNoPoint) {
  Rings rings;
  rings.feed(at(kStart, {gpu("A", kStart, 1)}));
  DeviceState lost = gpu("A", kStart, 1);
  lost.sample.set({Metric::power_draw, 0, kStart + 1s, Missing{MissingReason::device_lost, ""}});
  rings.feed(at(kStart + 1s, {lost}));
  EXPECT_EQ(readings_of(rings, "A"), 1U);
}

TEST(Rings, AGpuThatReturnsUnderAnotherIndexGoesOn) {
  Rings rings;
  rings.feed(at(kStart, {gpu("A", kStart, 1, 0), gpu("B", kStart, 1, 1)}));
  rings.feed(at(kStart + 1s, {gpu("B", kStart + 1s, 1, 0)}));
  rings.feed(at(kStart + 2s, {gpu("B", kStart + 2s, 1, 0), gpu("A", kStart + 2s, 1, 1)}));
  EXPECT_EQ(readings_of(rings, "A"), 2U);
  EXPECT_EQ(readings_of(rings, "B"), 3U);
}

TEST(Rings, AGpuThatWouldNotOpenIsNotKnown) {
  Rings rings;
  DeviceState closed = gpu("", kStart, 1);
  rings.feed(at(kStart, {closed}));
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
  rings.feed(at(kStart, {state}));
  ASSERT_EQ(rings.find("A")->series.size(), 2U);
  EXPECT_NE(rings.find("A")->find(Metric::fan_speed, 1), nullptr);
  EXPECT_EQ(rings.find("A")->find(Metric::fan_speed, 0), nullptr);
}

TEST(Rings, AGpuThatIsGoneForADayIsForgotten) {
  Rings rings;
  rings.feed(at(kStart, {gpu("A", kStart, 1), gpu("B", kStart, 1)}));
  for (auto now = kStart; now < kStart + 26h; now += 1min) rings.feed(at(now, {gpu("B", now, 1)}));
  EXPECT_EQ(rings.find("A"), nullptr);
  EXPECT_NE(rings.find("B"), nullptr);
}

TEST(Rings, OfTooManyGpusTheLongestGoneAreForgotten) {
  Rings rings;
  for (std::size_t i = 0; i < kMaxGpus + 10; ++i) {
    const auto now = kStart + std::chrono::seconds(i);
    rings.feed(at(now, {gpu("GPU-" + std::to_string(i), now, 1)}));
  }
  EXPECT_EQ(rings.gpus().size(), kMaxGpus);
  EXPECT_EQ(rings.find("GPU-0"), nullptr);
  EXPECT_NE(rings.find("GPU-137"), nullptr);
}

// Every number of every row is noise of 63 bits: no coding makes it smaller.
TEST(Rings, TheLimitOfBytesHoldsWhateverTheDataAre) {
  constexpr std::size_t kLimit = std::size_t{256} * 1024;
  Rings rings(kLimit);
  std::mt19937_64 random(1);
  std::size_t most = 0;
  for (int second = 0; second < 4000; ++second) {
    const auto now = kStart + std::chrono::seconds(second);
    DeviceState state = gpu("A", now, static_cast<std::int64_t>(random()));
    for (const Row* row : remembered_rows()) {
      if (row->dimension != Dimension::none) continue;
      state.sample.set({row->metric, 0, now, static_cast<std::int64_t>(random())});
    }
    rings.feed(at(now, {std::move(state)}));
    most = std::max(most, rings.bytes());
  }
  EXPECT_LE(most, kLimit + std::size_t{64} * 1024) << "one round of closing blocks is over it";
  EXPECT_LE(rings.find("A")->bytes, kLimit);
  EXPECT_GT(readings_of(rings, "A"), 30U) << "the newest are still there";
}

}  // namespace
}  // namespace gpuyard::history
