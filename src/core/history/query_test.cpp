#include "core/history/query.h"

#include <gtest/gtest.h>

namespace gpuyard::history {
namespace {

constexpr std::int64_t kNow = 1'767'225'600'000;  // 2026-01-01T00:00:00Z

std::int64_t moment(std::string_view text) {
  const auto parsed = parse_moment(text, "since", kNow);
  EXPECT_TRUE(parsed) << text;
  return parsed ? *parsed : -1;
}

TEST(ParseMoment, RelativeAndCalendarTimesAreAccepted) {
  EXPECT_EQ(moment("2h"), kNow - 7'200'000);
  EXPECT_EQ(moment("0.5h"), kNow - 1'800'000);
  EXPECT_EQ(moment("7d"), kNow - 7 * 86'400'000LL);
  EXPECT_EQ(moment("now"), kNow);
  EXPECT_EQ(moment("2026-01-01T00:00:00Z"), kNow);
  EXPECT_EQ(moment("2025-12-31T23:59:59.5Z"), kNow - 500);
  EXPECT_EQ(moment("2025-12-31 23:59"), kNow - 60'000);
  EXPECT_EQ(moment("2026-01-01"), kNow);
  EXPECT_EQ(moment("1767225600"), kNow);
}

TEST(ParseMoment, InvalidTextErrorGivesExample) {
  for (const char* text : {"", "yesterday", "-2h", "2y", "h", "2026-13-01", "2026-02-30",
                           "2026-01-01T25:00:00Z", "2026-01-01T00:00:00+01:00", "nan", "inf", "1e9",
                           "99999999999999999999d", "2026-01-01T00:00:0", "2 h"}) {
    const auto parsed = parse_moment(text, "since", kNow);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Errc::invalid);
    EXPECT_NE(parsed.error().message.find("2h"), std::string::npos) << parsed.error().message;
  }
}

Result<void> times(const QueryParameters& parameters) {
  Query query;
  return set_times(query, parameters, kNow);
}

TEST(SetTimes, InvalidRangeOrStepIsRefusedWithSuggestion) {
  EXPECT_TRUE(times({"1h", "0s", "1s", {}}));
  EXPECT_TRUE(times({"30d", "0s", "10m", {}}));
  EXPECT_TRUE(times({"100d", "0s", "10m", {}})) << "no more than a month is kept";
  EXPECT_FALSE(times({"1h", "2h", {}, {}}));
  EXPECT_FALSE(times({"0s", "0s", {}, {}}));
  EXPECT_FALSE(times({"1h", "0s", {}, 0}));
  EXPECT_FALSE(times({"1h", "0s", {}, kMaxPoints + 1}));
  EXPECT_FALSE(times({"1h", "0s", "1m", 100}));
  EXPECT_FALSE(times({"1h", "0s", "0s", {}}));
  const auto fine = times({"30d", "0s", "1s", {}});
  ASSERT_FALSE(fine);
  EXPECT_EQ(fine.error().message, "step: expected 130s or more for this range; got \"1s\"");
}

}  // namespace

namespace {

Metric named(std::string_view name) {
  const auto row = find_row(name);
  EXPECT_TRUE(row) << name << ": " << (row ? "" : row.error().message);
  return row ? (*row)->metric : Metric::name;
}

TEST(FindRow, EveryCommonNameIsAccepted) {
  for (const char* name : {"power_draw", "power_draw_w", "power.draw", "power", "POWER"}) {
    EXPECT_EQ(named(name), Metric::power_draw) << name;
  }
  EXPECT_EQ(named("temp"), Metric::temperature_core);
  EXPECT_EQ(named("energy"), Metric::energy_total) << "the beginning of one key alone";
  EXPECT_EQ(named("utilization.memory"), Metric::utilization_memory);
}

TEST(FindRow, AmbiguousPrefixErrorListsNames) {
  const auto row = find_row("temperature_");
  ASSERT_FALSE(row);
  EXPECT_NE(row.error().message.find("temperature_core_celsius, temperature_memory_celsius"),
            std::string::npos)
      << row.error().message;
}

TEST(FindRow, AnUnknownNameNamesTheNearest) {
  const auto row = find_row("powr_draw");
  ASSERT_FALSE(row);
  EXPECT_EQ(row.error().code, Errc::invalid);
  EXPECT_NE(row.error().message.find("\"power_draw\""), std::string::npos) << row.error().message;
}

TEST(FindRow, MetricWithoutHistoryIsRefused) {
  const auto row = find_row("serial");
  ASSERT_FALSE(row);
  EXPECT_NE(row.error().message.find("no history"), std::string::npos);
  EXPECT_FALSE(find_row(""));
}

TEST(FindElement, IsCalledAsInJson) {
  EXPECT_EQ(*find_element(row_of(Metric::fan_speed), "1"), 1);
  EXPECT_EQ(*find_element(row_of(Metric::ecc_corrected_volatile_at), "device_memory"), 2);
  EXPECT_FALSE(find_element(row_of(Metric::fan_speed), "99"));
  EXPECT_FALSE(find_element(row_of(Metric::power_draw), "0"));
}

TEST(RecordedRows, StaticOrStateMetricsHaveZeroCadence) {
  EXPECT_EQ(cadence_of(Metric::power_draw), 1000);
  EXPECT_EQ(cadence_of(Metric::pcie_tx), 5000);
  EXPECT_EQ(cadence_of(Metric::ecc_corrected_volatile_at), 60'000) << "a rare counter";
  for (const Metric metric : {Metric::power_limit_max, Metric::numa_node, Metric::serial,
                              Metric::throttle_reasons, Metric::ecc_mode, Metric::driver_version}) {
    EXPECT_EQ(cadence_of(metric), 0) << row_of(metric).key;
  }
}

}  // namespace
}  // namespace gpuyard::history
