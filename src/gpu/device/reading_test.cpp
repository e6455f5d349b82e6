#include "gpu/device/reading.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

#include "gpu/device/catalog.h"

namespace gpuyard {
namespace {

Reading number_reading(Metric metric, std::int64_t value, std::uint16_t index = 0) {
  return {metric, index, {}, value};
}

TEST(Reading, IsOneOfNumberTextAndMissing) {
  const Reading number = number_reading(Metric::power_draw, 5);
  EXPECT_EQ(*number.number(), 5);
  EXPECT_EQ(number.text(), nullptr);
  EXPECT_EQ(number.missing(), nullptr);
  const Reading text{Metric::name, 0, {}, std::string("H100")};
  EXPECT_EQ(*text.text(), "H100");
  EXPECT_EQ(text.number(), nullptr);
}

TEST(Reading, DefaultIsMissingAsNotReady) {
  const Reading reading;
  ASSERT_NE(reading.missing(), nullptr);
  EXPECT_EQ(reading.missing()->reason, MissingReason::not_ready);
  EXPECT_EQ(reading.number(), nullptr);
}

TEST(Missing, TheDriversWordsGoBeforeOurs) {
  EXPECT_EQ(describe({MissingReason::failed, "Unknown Error"}), "Unknown Error");
  EXPECT_EQ(describe({MissingReason::timed_out, ""}), "the driver did not respond in time");
}

TEST(Missing, EveryReasonHasWordsOfItsOwn) {
  std::map<std::string, MissingReason> words;
  for (const auto reason :
       {MissingReason::not_supported, MissingReason::no_permission, MissingReason::device_lost,
        MissingReason::driver_gone, MissingReason::timed_out, MissingReason::not_ready,
        MissingReason::failed}) {
    const Missing missing{reason, ""};
    EXPECT_TRUE(words.emplace(describe(missing), reason).second);
    EXPECT_EQ(missing_from(describe(missing)), missing);
  }
}

TEST(Missing, DriverAndLegacyWordsRoundTrip) {
  for (const auto& [words, reason] :
       {std::pair("Not Supported", MissingReason::not_supported),
        std::pair("Function Not Found", MissingReason::not_supported),
        std::pair("System is not in ready state", MissingReason::not_ready),
        std::pair("the driver did not answer in time", MissingReason::timed_out),
        std::pair("Unknown Error", MissingReason::failed)}) {
    const Missing missing = missing_from(words);
    EXPECT_EQ(missing.reason, reason) << words;
    EXPECT_EQ(describe(missing), words);
  }
}

TEST(Sample, FindsOnlySetReadings) {
  Sample sample;
  sample.set(number_reading(Metric::power_draw, 5));
  EXPECT_EQ(*sample.number(Metric::power_draw), 5);
  EXPECT_EQ(sample.find(Metric::power_limit), nullptr);
  EXPECT_EQ(sample.number(Metric::power_limit), nullptr);
}

TEST(Sample, KeepsTheIndicesOfOneMetricApart) {
  Sample sample;
  sample.set(number_reading(Metric::clock_sm, 1, 1));
  sample.set(number_reading(Metric::clock_sm, 0, 0));
  EXPECT_EQ(*sample.number(Metric::clock_sm, 1), 1);
  EXPECT_EQ(*sample.number(Metric::clock_sm), 0);
  EXPECT_EQ(sample.find(Metric::clock_sm, 2), nullptr);
}

TEST(Sample, ANewerReadingReplacesTheOld) {
  Sample sample;
  sample.set(number_reading(Metric::power_draw, 5));
  sample.set({Metric::power_draw, 0, {}, Missing{MissingReason::device_lost, ""}});
  EXPECT_EQ(sample.readings().size(), 1U);
  EXPECT_EQ(sample.number(Metric::power_draw), nullptr);
}

TEST(Sample, MergeKeepsReadingsAbsentFromNewer) {
  Sample old;
  old.set(number_reading(Metric::power_draw, 1));
  old.set(number_reading(Metric::power_limit, 2));
  Sample newer;
  newer.set(number_reading(Metric::power_draw, 3));
  old.merge(newer);
  EXPECT_EQ(*old.number(Metric::power_draw), 3);
  EXPECT_EQ(*old.number(Metric::power_limit), 2);
}

TEST(Sample, AnyInsertionOrderGivesSortedUniqueReadings) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Sample sample;
    std::map<std::pair<Metric, std::uint16_t>, std::int64_t> expected;
    for (int i = 0; i < 40; ++i) {
      const auto metric = static_cast<Metric>(random() % kMetricCount);
      const auto index = static_cast<std::uint16_t>(random() % 3);
      sample.set(number_reading(metric, i, index));
      expected[{metric, index}] = i;
    }
    ASSERT_EQ(sample.readings().size(), expected.size());
    auto reading = sample.readings().begin();
    for (const auto& [key, value] : expected) {
      EXPECT_EQ(*reading++, number_reading(key.first, value, key.second));
    }
  }
}

TEST(Sample, MergeReplacesAllElementsOfMetric) {
  Sample sample;
  for (std::uint16_t fan = 0; fan < 3; ++fan)
    sample.set({Metric::fan_speed, fan, {}, std::int64_t{30}});
  sample.set({Metric::power_draw, 0, {}, std::int64_t{1}});
  Sample newer;
  newer.set({Metric::fan_speed, 0, {}, Missing{MissingReason::device_lost, ""}});
  sample.merge(newer);
  EXPECT_EQ(sample.all(Metric::fan_speed).size(), 1U);
  EXPECT_NE(sample.number(Metric::power_draw), nullptr);
}

TEST(Sample, MissingSampleHasMissingProcessList) {
  const Missing why{MissingReason::device_lost, ""};
  EXPECT_FALSE(missing_sample({Probe::memory}, why, {}).processes());
  EXPECT_EQ(missing_sample({Probe::processes}, why, {}).processes(), (ProcessList{{}, why}));
}

TEST(Sample, MissingSampleHasAllProbeRows) {
  const TimePoint taken{std::chrono::seconds(5)};
  const Missing why{MissingReason::timed_out, ""};
  const Sample sample = missing_sample({Probe::memory, Probe::energy}, why, taken);
  ASSERT_EQ(sample.readings().size(),
            row_of(Probe::memory).fills.size() + row_of(Probe::energy).fills.size());
  for (const Reading& reading : sample.readings()) {
    EXPECT_EQ(reading.taken, taken);
    EXPECT_EQ(*reading.missing(), why);
  }
}

}  // namespace

namespace {

TEST(UpperBoundOf, BoundIsOtherReadingOfSameGpu) {
  Sample sample;
  sample.set({Metric::power_limit, 0, {}, std::int64_t{700'000}});
  sample.set({Metric::memory_total, 0, {}, std::int64_t{80} << 30});
  EXPECT_EQ(upper_bound_of(Metric::power_draw, sample), 700'000);
  EXPECT_EQ(upper_bound_of(Metric::memory_used, sample), std::int64_t{80} << 30);
  EXPECT_EQ(upper_bound_of(Metric::clock_sm, sample), std::nullopt) << "not known now";
  EXPECT_EQ(upper_bound_of(Metric::energy_total, sample), std::nullopt) << "it has none";
}

TEST(UpperBoundOf, PercentagesEndAtAHundred) {
  EXPECT_EQ(upper_bound_of(Metric::utilization_gpu, {}), 100);
}

}  // namespace
}  // namespace gpuyard
