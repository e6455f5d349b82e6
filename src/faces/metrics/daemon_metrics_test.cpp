#include "faces/metrics/daemon_metrics.h"

#include <gtest/gtest.h>

#include "faces/metrics/fleet_for_tests.h"

namespace gpuyard::metrics {
namespace {

std::string samples_of(const AlertMetrics& alerts) {
  return samples_in(render(Snapshot{}, {"1", nullptr, nullptr, &alerts}, "p"));
}

TEST(Alerts, ThatFireHaveASeriesAndASeverity) {
  AlertMetrics alerts;
  alerts.firing = {{"thermal", "warning", 57, "3"}, {"disk", "error", 70, {}}};
  const std::string text = samples_of(alerts);
  for (const char* line :
       {R"(p_alert_firing{rule="thermal",device="3",level="warning"} 1)",
        R"(p_alert_severity{rule="thermal",device="3"} 57)",
        R"(p_alert_firing{rule="disk",level="error"} 1)", R"(p_alert_severity{rule="disk"} 70)"}) {
    EXPECT_TRUE(has(text, line)) << line << "\n" << text;
  }
}

TEST(Alerts, AreCountedByLevelEachInOneState) {
  AlertMetrics alerts;
  alerts.firing = {{"a", "critical", 90, "0", true, false},
                   {"a", "critical", 90, "1", true, true},
                   {"a", "critical", 90, "2"},
                   {"b", "info", 10, "2"}};
  const std::string text = samples_of(alerts);
  for (const char* line : {R"(p_alerts{level="critical",state="acknowledged"} 1)",
                           R"(p_alerts{level="critical",state="silenced"} 1)",
                           R"(p_alerts{level="critical",state="firing"} 1)",
                           R"(p_alerts{level="info",state="firing"} 1)",
                           R"(p_alerts{level="error",state="firing"} 0)"}) {
    EXPECT_TRUE(has(text, line)) << line << "\n" << text;
  }
}

TEST(Alerts, DuplicatesAreOneSeries) {
  AlertMetrics alerts;
  alerts.firing = {{"a", "error", 60, "0"}, {"a", "error", 60, "0"}, {"a", "error", 60, "1"}};
  const std::string text = samples_of(alerts);
  EXPECT_TRUE(has(text, R"(p_alerts{level="error",state="firing"} 2)")) << text;
  const std::string series = R"(p_alert_firing{rule="a",device="0")";
  EXPECT_EQ(text.find(series), text.rfind(series)) << text;
}

TEST(Alerts, NoFiringAlertsHaveNoSeries) {
  AlertMetrics alerts;
  alerts.rules = 17;
  alerts.pending = 2;
  const std::string text = samples_of(alerts);
  EXPECT_TRUE(has(text, "p_alert_rules 17")) << text;
  EXPECT_TRUE(has(text, "p_alerts_pending 2")) << text;
  EXPECT_EQ(text.find("alert_firing"), std::string::npos) << text;
  EXPECT_EQ(text.find("sink"), std::string::npos) << text;
}

TEST(Alerts, AbsentServiceExportsNoSeries) {
  EXPECT_EQ(render(Snapshot{}, {"1"}, "p").find("alert"), std::string::npos);
}

TEST(Alerts, SinkCountersAreExported) {
  AlertMetrics alerts;
  alerts.sinks = {{"on \"call\"", "pagerduty", 4, 30, 2, 1}};
  const std::string text = samples_of(alerts);
  const std::string labels = R"({sink="on \"call\"",kind="pagerduty"} )";
  for (const auto& [name, value] :
       {std::pair{"queued", "4"}, std::pair{"delivered_total", "30"},
        std::pair{"retries_total", "2"}, std::pair{"dead_letters_total", "1"}}) {
    EXPECT_TRUE(has(text, std::string("p_sink_") + name + labels + value)) << name << "\n" << text;
  }
}

TEST(Alerts, RuleEvaluationTimeIsHistogram) {
  Histogram tick;
  tick.add(std::chrono::microseconds(300));
  AlertMetrics alerts;
  alerts.evaluation_time = &tick;
  const std::string text = samples_of(alerts);
  EXPECT_TRUE(has(text, R"(p_alert_tick_seconds_bucket{le="0.001"} 1)")) << text;
  EXPECT_TRUE(has(text, "p_alert_tick_seconds_count 1")) << text;
}

}  // namespace
}  // namespace gpuyard::metrics
