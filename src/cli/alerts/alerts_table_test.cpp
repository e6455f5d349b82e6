#include "cli/alerts/alerts_table.h"

#include <gtest/gtest.h>

#include "base/local_time.h"
#include "cli/read/reader_for_tests.h"

namespace gpuyard::cli {
namespace {

protocol::Alert hot() {
  protocol::Alert alert;
  alert.number = 42;
  alert.rule = "thermal";
  alert.level = AlertLevel::error;
  alert.severity = 61;
  alert.device = {3, "GPU-3", "0000:03:00.0", "NVIDIA H100"};
  alert.message = "GPU 3 is at 91 C; the threshold is 80 C";
  alert.advice = "Cool it.";
  alert.fired = kNow;
  return alert;
}

TEST(AlertsTable, EmptyListSaysNoAlertsAreFiring) {
  EXPECT_EQ(alerts_text({}, kNow, {}), "No alerts are firing.\n");
}

TEST(AlertsTable, RowHasMessageAndAdvice) {
  protocol::Alerts alerts;
  alerts.alerts = {hot()};
  const std::string text = alerts_text(alerts, kNow, {});
  EXPECT_NE(text.find("GPU 3 is at 91 C; the threshold is 80 C"), std::string::npos) << text;
  EXPECT_NE(text.find("42: Cool it.\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" SINCE (" + zone_name(kNow) + ") "), std::string::npos) << text;
}

TEST(AlertsTable, RemarksShowQuarantineSilenceAndInhibition) {
  protocol::Alerts alerts;
  alerts.alerts = {hot()};
  alerts.alerts[0].quarantines = true;
  alerts.alerts[0].silenced = true;
  alerts.alerts[0].inhibited_by = "gpu-lost";
  EXPECT_NE(alerts_text(alerts, kNow, {})
                .str()
                .find("42: GPU 3 is quarantined, silenced, inhibited by gpu-lost\n"),
            std::string::npos);
  alerts.alerts[0].acknowledged = {"uid 0", "", {}};
  EXPECT_EQ(alerts_text(alerts, kNow, {}).str().find("Cool it"), std::string::npos);
}

TEST(AlertsTable, PendingRuleIsListed) {
  protocol::Alerts alerts;
  alerts.pending = {{"memory", hot().device, 91, 12, 60}};
  EXPECT_EQ(alerts_text(alerts, kNow, {}),
            "No alerts are firing.\nPending: memory on GPU 3, for 12 s of 60 s\n");
}

TEST(AlertsTable, EscapeSequenceInMessageIsRemoved) {
  protocol::Alerts alerts;
  alerts.alerts = {hot()};
  alerts.alerts[0].message = "\x1b[2Jboo";
  EXPECT_EQ(alerts_text(alerts, kNow, {}).str().find('\x1b'), std::string::npos);
}

TEST(AlertsTable, ASinkThatFailsSaysWhy) {
  protocol::Sinks sinks;
  protocol::Sink sink;
  sink.name = "ops";
  sink.failing_since = kNow;
  sink.last_error = "hooks.example: status 500";
  sinks.sinks = {sink};
  EXPECT_NE(sinks_text(sinks, kNow, {}).str().find("ops has received nothing since"),
            std::string::npos);
}

TEST(AlertsTable, AClosedSinkSaysWhy) {
  protocol::Sink sink;
  sink.name = "pager";
  sink.closed = true;
  sink.last_error = "sink.pager.ca_file: opening /ca.pem: No such file or directory";
  const std::string text = sinks_text({{1, false}, {sink}}, kNow, {}).str();
  EXPECT_NE(text.find("\npager is closed: sink.pager.ca_file: opening /ca.pem"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace gpuyard::cli
