// The formats come from one writer: tests their differences, and that there are no others.
#include <gtest/gtest.h>

#include "faces/metrics/fleet_for_tests.h"
#include "faces/metrics/metrics_writer.h"

namespace gpuyard::metrics {
namespace {

// Renders everything that one answer can have.
std::string everything(Format format) {
  Histogram lag;
  lag.add(std::chrono::milliseconds(7));
  const LeaseMetrics leases{{{"0", true}}, 1, 7, 4711};
  AlertMetrics alerts;
  alerts.firing = {{"hot", "warning", 55, "0"}};
  alerts.sinks = {{"log", "log", 0, 5, 0, 0}};
  alerts.evaluation_time = &lag;
  return render(fleet_of(2), {"1.2.3", &lag, &leases, &alerts, "node7"}, "p", format,
                {.dialect = Dialect::both});
}

TEST(OpenMetrics, HasTheSameSamplesAsTheTextFormat) {
  EXPECT_EQ(samples_in(everything(Format::openmetrics)), samples_in(everything(Format::text)));
}

TEST(OpenMetrics, EndsWithItsMark) {
  EXPECT_TRUE(everything(Format::openmetrics).ends_with("\n# EOF\n"));
  EXPECT_EQ(everything(Format::text).find("EOF"), std::string::npos);
}

TEST(OpenMetrics, NamesACounterWithoutTotal) {
  const std::string open = everything(Format::openmetrics);
  EXPECT_TRUE(has(open, "# TYPE p_gpu_energy_joules counter")) << open;
  EXPECT_TRUE(has(open, "# UNIT p_gpu_energy_joules joules"));
  EXPECT_TRUE(has(open, "p_gpu_energy_joules_total{device=\"0\"} 0.001"));
  EXPECT_TRUE(has(everything(Format::text), "# TYPE p_gpu_energy_joules_total counter"));
}

TEST(OpenMetrics, GivesEveryFamilyItsUnit) {
  const std::string open = everything(Format::openmetrics);
  for (const MetricRow& row : catalog()) {
    if (row.prometheus.empty() || row.unit == Unit::none) continue;
    std::string family(row.prometheus);
    if (row.kind == MetricKind::counter)
      family.resize(family.size() - std::string("_total").size());
    const std::string unit = "# UNIT p_" + family + " " + std::string(unit_suffix(family));
    EXPECT_NE(unit_suffix(family), "") << family;
    EXPECT_TRUE(has(open, unit)) << unit;
  }
  EXPECT_TRUE(has(open, "# UNIT p_loop_lag_seconds seconds"));
  EXPECT_EQ(open.find("# UNIT p_gpu_fan_speed_percent_total"), std::string::npos);
  EXPECT_EQ(everything(Format::text).find("# UNIT"), std::string::npos);
}

TEST(OpenMetrics, NoCounterOfOursIsOfUnknownType) {
  for (const MetricRow& row : catalog()) {
    if (row.kind != MetricKind::counter || row.prometheus.empty()) continue;
    EXPECT_TRUE(row.prometheus.ends_with("_total")) << row.prometheus;
  }
  EXPECT_EQ(render(fleet_of(1), {"1"}, "p", Format::openmetrics).find(" unknown\n"),
            std::string::npos);
}

TEST(OpenMetrics, EscapesQuotationMarksInHelp) {
  const auto help_in = [](Format format) {
    std::string out;
    MetricsWriter(out, "p_", format).family("x", "gauge", R"(a "b" \ c)");
    return out;
  };
  EXPECT_TRUE(has(help_in(Format::text), R"(# HELP p_x a "b" \\ c)"));
  EXPECT_TRUE(has(help_in(Format::openmetrics), R"(# HELP p_x a \"b\" \\ c)"));
}

TEST(OpenMetrics, ABucketsBoundIsAFraction) {
  const std::string text = everything(Format::text);
  EXPECT_NE(text.find("p_loop_lag_seconds_bucket{le=\"1.0\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("p_loop_lag_seconds_bucket{le=\"2.5\"} 1\n"), std::string::npos);
}

}  // namespace
}  // namespace gpuyard::metrics
