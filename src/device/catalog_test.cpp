#include "device/catalog.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

bool has_a_series(const Row& row) {
  return !row.prometheus.empty();
}
bool is_measured(const Row& row) {
  return row.subject == Subject::device;
}

TEST(Catalog, EveryMetricHasItsRow) {
  ASSERT_EQ(catalog().size(), kMetricCount);
  for (const Row& row : catalog()) EXPECT_EQ(&row_of(row.metric), &row);
}

TEST(Catalog, EveryRowHasAHelpTextThatIsOneSentence) {
  for (const Row& row : catalog()) {
    ASSERT_FALSE(row.help.empty()) << row.key;
    EXPECT_EQ(row.help.back(), '.') << row.key;
    EXPECT_EQ(row.help.find_first_of("\n\\\""), std::string_view::npos) << row.key;
  }
}

TEST(Catalog, NoTwoRowsShareAName) {
  std::set<std::string> keys;
  std::set<std::string_view> families;
  for (const Row& row : catalog()) {
    EXPECT_TRUE(keys.insert(json_key(row)).second) << row.key;
    EXPECT_TRUE(!has_a_series(row) || families.insert(row.prometheus).second) << row.key;
  }
}

TEST(Catalog, WhatIsMeasuredIsANumberWithAUnitAndASeries) {
  for (const Row& row : catalog()) {
    EXPECT_EQ(is_measured(row), row.kind != Kind::text) << row.key;
    EXPECT_EQ(is_measured(row), has_a_series(row)) << row.key;
    EXPECT_EQ(is_measured(row), row.unit != Unit::none) << row.key;
  }
}

TEST(Catalog, ASeriesNamesItsBaseUnit) {
  for (const Row& row : catalog()) {
    const std::string_view unit = row.unit == Unit::percent       ? "_percent"
                                  : row.unit == Unit::celsius     ? "_celsius"
                                  : row.unit == Unit::bytes       ? "_bytes"
                                  : row.unit == Unit::milliwatts  ? "_watts"
                                  : row.unit == Unit::millijoules ? "_joules_total"
                                  : row.unit == Unit::megahertz   ? "_hertz"
                                                                  : "";
    EXPECT_TRUE(row.prometheus.ends_with(unit)) << row.prometheus;
  }
}

TEST(Catalog, CountersAndOnlyCountersEndInTotal) {
  for (const Row& row : catalog()) {
    EXPECT_EQ(row.prometheus.ends_with("_total"), row.kind == Kind::counter) << row.prometheus;
  }
}

TEST(Catalog, JsonKeysCarryTheirUnit) {
  EXPECT_EQ(json_key(row_of(Metric::name)), "name");
  EXPECT_EQ(json_key(row_of(Metric::memory_used)), "memory_used_bytes");
  EXPECT_EQ(json_key(row_of(Metric::utilization_gpu)), "utilization_gpu_percent");
  EXPECT_EQ(json_key(row_of(Metric::temperature_core)), "temperature_core_celsius");
  EXPECT_EQ(json_key(row_of(Metric::power_draw)), "power_draw_w");
  EXPECT_EQ(json_key(row_of(Metric::energy_total)), "energy_total_j");
  EXPECT_EQ(json_key(row_of(Metric::clock_sm)), "clock_sm_mhz");
}

TEST(Catalog, MilliwattsBecomeWattsAtEveryEdge) {
  const UnitInfo& unit = unit_info(Unit::milliwatts);
  EXPECT_EQ(unit.json_divisor, 1000);
  EXPECT_EQ(unit.prometheus_factor, 1e-3);
  EXPECT_EQ(unit.symbol, "W");
}

TEST(Probes, EveryMeasuredRowIsFilledByExactlyOneProbe) {
  std::multiset<Metric> filled;
  for (const ProbeRow& row : probes()) filled.insert(row.fills.begin(), row.fills.end());
  for (const Row& row : catalog()) {
    EXPECT_EQ(filled.count(row.metric), is_measured(row) ? 1U : 0U) << row.key;
  }
}

TEST(Probes, EveryProbeHasItsRowAndANameOfItsOwn) {
  std::set<std::string_view> names;
  ASSERT_EQ(probes().size(), kProbeCount);
  for (const ProbeRow& row : probes()) {
    EXPECT_EQ(&row_of(row.probe), &row);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
  }
}

TEST(Probes, TheTiersShareTheProbesOut) {
  const ProbeSet fast = probes_of(Tier::fast);
  const ProbeSet slow = probes_of(Tier::slow);
  EXPECT_EQ(fast - slow, fast);
  EXPECT_EQ(fast | slow, ProbeSet::from_bits(0xFFFFFFFF));
}

TEST(Probes, TheProbesFillingSomeMetricsAreNoMoreThanNeeded) {
  const std::vector<Metric> wanted = {Metric::memory_free, Metric::memory_used,
                                      Metric::temperature_core};
  EXPECT_EQ(probes_filling(wanted), (ProbeSet{Probe::memory, Probe::temperature}));
  const std::vector<Metric> known_already = {Metric::name, Metric::driver_version};
  EXPECT_TRUE(probes_filling(known_already).empty());
}

TEST(ProbeSet, HoldsEachProbeOnce) {
  const ProbeSet set = {Probe::power, Probe::memory, Probe::power};
  std::vector<Probe> seen;
  set.each([&](Probe probe) { seen.push_back(probe); });
  EXPECT_EQ(seen, (std::vector{Probe::memory, Probe::power}));
  EXPECT_TRUE(set.contains(Probe::power));
  EXPECT_FALSE(set.contains(Probe::energy));
}

TEST(ProbeSet, ForgetsBitsThatAreNoProbe) {
  EXPECT_TRUE(ProbeSet::from_bits(1U << kProbeCount).empty());
}

TEST(ProbeSet, SurvivesItsBits) {
  for (std::uint32_t bits = 0; bits < 1U << kProbeCount; ++bits) {
    EXPECT_EQ(ProbeSet::from_bits(bits).bits(), bits);
  }
}

}  // namespace
}  // namespace gpuyard
