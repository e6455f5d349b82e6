#include "gpu/device/catalog.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

bool has_series(const MetricRow& row) {
  return !row.prometheus.empty();
}
bool is_measured(const MetricRow& row) {
  return row.subject == MetricSubject::device;
}

TEST(Catalog, EveryMetricHasItsRow) {
  ASSERT_EQ(catalog().size(), kMetricCount);
  for (const MetricRow& row : catalog()) EXPECT_EQ(&row_of(row.metric), &row);
}

TEST(Catalog, HelpTextIsOneSentence) {
  for (const MetricRow& row : catalog()) {
    ASSERT_FALSE(row.help.empty()) << row.key;
    EXPECT_EQ(row.help.back(), '.') << row.key;
    EXPECT_EQ(row.help.find_first_of("\n\\\""), std::string_view::npos) << row.key;
  }
}

TEST(Catalog, NoTwoRowsShareAName) {
  std::set<std::string> keys;
  std::set<std::string_view> families;
  for (const MetricRow& row : catalog()) {
    EXPECT_TRUE(keys.insert(json_key(row)).second) << row.key;
    EXPECT_TRUE(!has_series(row) || families.insert(row.prometheus).second) << row.key;
  }
}

TEST(Catalog, SeriesRowIsMeasuredAndNotText) {
  for (const MetricRow& row : catalog()) {
    const bool text = row.kind == MetricKind::text;
    EXPECT_TRUE(!has_series(row) || (is_measured(row) && !text)) << row.key;
    EXPECT_TRUE(!text || row.unit == Unit::none) << row.key;
  }
}

TEST(Catalog, OnlyStateAndFlagRowsHaveWords) {
  for (const MetricRow& row : catalog()) {
    const bool words = row.kind == MetricKind::state || row.kind == MetricKind::flags;
    EXPECT_EQ(!row.words.empty(), words) << row.key;
    std::set<std::int64_t> values;
    for (const MetricWord& word : row.words) {
      EXPECT_TRUE(values.insert(word.value).second) << row.key << " " << word.text;
    }
  }
}

TEST(Catalog, FlagRowNamesBitsOnceThenOther) {
  for (const MetricRow& row : catalog()) {
    if (row.kind != MetricKind::flags) continue;
    std::uint64_t named = 0;
    for (const MetricWord& word : row.words) {
      const auto bits = static_cast<std::uint64_t>(word.value);
      EXPECT_EQ(named & bits, 0U) << word.text;
      EXPECT_EQ(std::has_single_bit(bits), word.text != "other") << word.text;
      named |= bits;
    }
    EXPECT_EQ(named, ~std::uint64_t{0}) << row.key;
    EXPECT_EQ(row.words.back().text, "other");
  }
}

TEST(Catalog, DimensionElementsHaveUniqueNames) {
  for (const Dimension dimension : {Dimension::fan, Dimension::link, Dimension::location}) {
    EXPECT_FALSE(label_of(dimension).empty());
    std::set<std::string> names;
    for (std::uint16_t index = 0; index < extent_of(dimension); ++index) {
      EXPECT_TRUE(names.insert(element_of(dimension, index)).second);
    }
  }
  EXPECT_EQ(extent_of(Dimension::none), 1);
  EXPECT_EQ(element_of(Dimension::location, 2), "device_memory");
}

TEST(Catalog, ASeriesNamesItsBaseUnit) {
  for (const MetricRow& row : catalog()) {
    const bool percent = row.unit == Unit::percent || row.unit == Unit::millipercent;
    const std::string_view unit = !has_series(row) || row.unit == Unit::none ? ""
                                  : percent                                  ? "_percent"
                                  : row.unit == Unit::celsius                ? "_celsius"
                                  : row.unit == Unit::bytes && row.kind == MetricKind::counter
                                      ? "_bytes_total"
                                  : row.unit == Unit::bytes            ? "_bytes"
                                  : row.unit == Unit::bytes_per_second ? "_bytes_per_second"
                                  : row.unit == Unit::nanoseconds      ? "_seconds_total"
                                  : row.unit == Unit::milliwatts       ? "_watts"
                                  : row.unit == Unit::millijoules      ? "_joules_total"
                                  : row.unit == Unit::megahertz        ? "_hertz"
                                                                       : "";
    EXPECT_TRUE(row.prometheus.ends_with(unit)) << row.prometheus;
  }
}

TEST(Catalog, CountersAndOnlyCountersEndInTotal) {
  for (const MetricRow& row : catalog()) {
    if (!has_series(row)) continue;
    EXPECT_EQ(row.prometheus.ends_with("_total"), row.kind == MetricKind::counter)
        << row.prometheus;
  }
}

TEST(Catalog, JsonKeyIncludesUnit) {
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

TEST(Probes, MeasuredRowHasExactlyOneProbe) {
  std::multiset<Metric> filled;
  for (const ProbeRow& row : probes()) filled.insert(row.fills.begin(), row.fills.end());
  for (const MetricRow& row : catalog()) {
    EXPECT_EQ(filled.count(row.metric), is_measured(row) ? 1U : 0U) << row.key;
  }
}

TEST(Probes, EveryProbeHasRowAndUniqueName) {
  std::set<std::string_view> names;
  ASSERT_EQ(probes().size(), kProbeCount);
  for (const ProbeRow& row : probes()) {
    EXPECT_EQ(&row_of(row.probe), &row);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
  }
}

TEST(Probes, EveryProbeBelongsToOneTier) {
  const ProbeSet fast = probes_of(Tier::fast);
  const ProbeSet slow = probes_of(Tier::slow);
  const ProbeSet rare = probes_of(Tier::rare);
  EXPECT_EQ(fast - slow - rare, fast);
  EXPECT_EQ(slow - rare, slow);
  EXPECT_EQ(fast | slow | rare, ProbeSet::all());
}

TEST(Probes, ProbesForMetricsAreMinimal) {
  const std::vector<Metric> wanted = {Metric::memory_free, Metric::memory_used,
                                      Metric::temperature_core};
  EXPECT_EQ(probes_for(wanted), (ProbeSet{Probe::memory, Probe::temperature}));
  const std::vector<Metric> known_already = {Metric::name, Metric::driver_version};
  EXPECT_TRUE(probes_for(known_already).empty());
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
  EXPECT_TRUE(ProbeSet::from_bits(std::uint64_t{1} << kProbeCount).empty());
}

TEST(ProbeSet, SurvivesItsBits) {
  for (std::size_t probe = 0; probe < kProbeCount; ++probe) {
    const std::uint64_t bits = std::uint64_t{1} << probe;
    EXPECT_EQ(ProbeSet::from_bits(bits).bits(), bits);
    EXPECT_TRUE(ProbeSet::from_bits(bits).contains(static_cast<Probe>(probe)));
  }
}

}  // namespace
}  // namespace gpuyard
