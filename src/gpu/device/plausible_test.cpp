#include "gpu/device/plausible.h"

#include <gtest/gtest.h>

#include "gpu/device/catalog.h"

namespace gpuyard {
namespace {

Reading reading(Metric metric, std::int64_t number) {
  return {metric, 0, {}, number};
}

bool is_implausible(const Reading& one) {
  return one.missing() != nullptr && *one.missing() == Missing{MissingReason::failed, kImplausible};
}

TEST(RejectImplausible, OnlyValuesWithinRowBoundsAreKept) {
  for (const MetricRow& row : catalog()) {
    if (row.kind == MetricKind::text) continue;
    for (const std::int64_t edge : {row.bounds.least, row.bounds.most}) {
      EXPECT_EQ(reject_implausible(reading(row.metric, edge)), reading(row.metric, edge))
          << row.key;
    }
    if (row.kind == MetricKind::flags) continue;
    EXPECT_TRUE(is_implausible(reject_implausible(reading(row.metric, row.bounds.least - 1))))
        << row.key;
    EXPECT_TRUE(is_implausible(reject_implausible(reading(row.metric, row.bounds.most + 1))))
        << row.key;
  }
}

TEST(RejectImplausible, RefusesImpossibleNumbers) {
  for (const auto& [metric, number] : {std::pair{Metric::power_draw, std::int64_t{4'000'000'000}},
                                       {Metric::utilization_gpu, 101},
                                       {Metric::utilization_gpu, 4'294'967'295},
                                       {Metric::temperature_core, 255},
                                       {Metric::fan_speed, 65'535},
                                       {Metric::memory_used, -1},
                                       {Metric::performance_state, 32},
                                       {Metric::pcie_rx, 4'398'046'510'080},
                                       {Metric::ecc_mode, 4'294'967'295}}) {
    EXPECT_TRUE(is_implausible(reject_implausible(reading(metric, number)))) << row_of(metric).key;
  }
}

TEST(RejectImplausible, KeepsUnusualNumbers) {
  for (const auto& [metric, number] : {std::pair{Metric::power_draw, std::int64_t{3'600'000}},
                                       {Metric::temperature_core, -30},
                                       {Metric::fan_speed, 120},
                                       {Metric::nvlink_tx, std::int64_t{1} << 60U},
                                       {Metric::throttle_reasons, INT64_MIN},
                                       {Metric::compute_mode, 17}}) {
    EXPECT_EQ(reject_implausible(reading(metric, number)), reading(metric, number))
        << row_of(metric).key;
  }
}

class PlausibilityFilterTest : public ::testing::Test {
 protected:
  // Returns the reading after the limits have been applied to a sample of it alone.
  Reading after(Metric metric, std::int64_t number) {
    Sample sample;
    sample.set(reading(metric, number));
    filter_.apply(sample);
    return *sample.find(metric);
  }

  PlausibilityFilter filter_;
};

TEST_F(PlausibilityFilterTest, ValueFarAboveReportedMaximumIsImplausible) {
  EXPECT_FALSE(is_implausible(after(Metric::clock_sm, 9'000))) << "no limit is known yet";
  after(Metric::clock_sm_max, 1'980);
  EXPECT_TRUE(is_implausible(after(Metric::clock_sm, 9'000)));
  EXPECT_FALSE(is_implausible(after(Metric::clock_sm, 2'500)));
  EXPECT_FALSE(is_implausible(after(Metric::clock_memory, 9'000))) << "another clock";
}

TEST_F(PlausibilityFilterTest, SurviveAFailedReadingOfTheLimit) {
  after(Metric::power_limit_max, 700'000);
  Sample sample;
  sample.set({Metric::power_limit_max, 0, {}, Missing{MissingReason::failed, "Unknown Error"}});
  sample.set(reading(Metric::power_draw, 2'100'001));
  filter_.apply(sample);
  EXPECT_TRUE(is_implausible(*sample.find(Metric::power_draw)));
}

TEST_F(PlausibilityFilterTest, ALimitThatCannotBeIsNotUsed) {
  after(Metric::power_limit_max, 0);
  EXPECT_FALSE(is_implausible(after(Metric::power_draw, 300'000)));
  after(Metric::temperature_shutdown, 0);
  EXPECT_FALSE(is_implausible(after(Metric::temperature_core, 80)));
  after(Metric::temperature_shutdown, 95);
  EXPECT_TRUE(is_implausible(after(Metric::temperature_core, 146)));
}

TEST_F(PlausibilityFilterTest, APartIsNoMoreThanTheWhole) {
  Sample sample;
  sample.set(reading(Metric::bar1_total, 256));
  sample.set(reading(Metric::bar1_used, 257));
  sample.set(reading(Metric::bar1_free, 200));
  filter_.apply(sample);
  EXPECT_TRUE(is_implausible(*sample.find(Metric::bar1_used)));
  EXPECT_EQ(*sample.number(Metric::bar1_free), 200) << "its neighbour stays";
}

}  // namespace
}  // namespace gpuyard
