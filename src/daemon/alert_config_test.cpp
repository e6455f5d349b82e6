#include "daemon/alert_config.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"
#include "core/andon/alert_severity.h"
#include "io/notify/notification.h"

namespace gpuyard::daemon {
namespace {

class AlertConfigTest : public ::testing::Test {
 protected:
  std::string path() const { return directory_.in("alerts.toml"); }
  Result<AlertConfig> read(const std::string& text) {
    directory_.write("alerts.toml", text);
    config_.alerts.file = path();
    return read_alert_config(config_);
  }
  std::string refused(const std::string& text) {
    const auto alerts = read(text);
    return alerts ? "it was taken" : alerts.error().message;
  }

  const ScratchDirectory directory_;
  config::Config config_;
};

TEST_F(AlertConfigTest, MissingFileGivesBuiltInLogSink) {
  const auto alerts = read_alert_config({});
  ASSERT_TRUE(alerts) << alerts.error().message;
  ASSERT_EQ(alerts->sinks.size(), 1U);
  EXPECT_EQ(alerts->sinks[0].name, "log");
  EXPECT_EQ(alerts->sinks[0].min_level, notify::NotificationLevel::info);
}

TEST_F(AlertConfigTest, ConfiguredLogSinkReplacesBuiltIn) {
  const auto alerts = read("[sink.log]\nkind = 'log'\nmin_level = 'error'\n");
  ASSERT_TRUE(alerts) << alerts.error().message;
  ASSERT_EQ(alerts->sinks.size(), 1U);
  EXPECT_EQ(alerts->sinks[0].min_level, notify::NotificationLevel::error);
}

TEST_F(AlertConfigTest, RuleCommandBecomesSeparateSink) {
  const auto alerts = read("[rule.thermal]\ncommand = ['/bin/true', 'x']\n");
  ASSERT_TRUE(alerts) << alerts.error().message;
  const auto command =
      std::ranges::find(alerts->sinks, "command:thermal", &notify::SinkConfig::name);
  ASSERT_NE(command, alerts->sinks.end());
  EXPECT_EQ(command->argv, (std::vector<std::string>{"/bin/true", "x"}));
}

TEST_F(AlertConfigTest, ACapNeedsControl) {
  EXPECT_NE(refused("[rule.thermal]\ncap_w = 300\n").find("control.enabled is false"),
            std::string::npos);
  EXPECT_EQ(refused("[rule.thermal]\ncap_w = 300\nenabled = false\n"), "it was taken");
  config_.control.enabled = true;
  EXPECT_EQ(refused("[rule.thermal]\ncap_w = 300\n"), "it was taken");
}

TEST_F(AlertConfigTest, UnknownSinkInRuleIsRefused) {
  EXPECT_EQ(refused("[rule.thermal]\nsinks = ['ops']\n"),
            path() + ": rule thermal: unknown sink \"ops\"; known sinks: log");
}

TEST_F(AlertConfigTest, AFileThatIsNamedMustBeThere) {
  config_.alerts.file = "/nonexistent/alerts.toml";
  const auto alerts = read_alert_config(config_);
  ASSERT_FALSE(alerts);
  EXPECT_EQ(alerts.error().code, Errc::invalid);
  EXPECT_NE(alerts.error().message.find("/nonexistent/alerts.toml"), std::string::npos);
}

TEST(Levels, AreTheSameForRulesAndForSinks) {
  for (int severity = 0; severity <= 100; ++severity) {
    EXPECT_EQ(enum_name(notify::level_of(static_cast<unsigned>(severity))),
              enum_name(andon::level_of(severity)));
  }
}

TEST_F(AlertConfigTest, CommandsCountAmongTheSinks) {
  std::string text;
  for (int i = 0; i < 16; ++i) {
    text += "[rule.r" + std::to_string(i) +
            "]\non = 'temperature_c'\nat = 1\nmessage = 'x'\ncommand = ['/bin/true']\n";
  }
  EXPECT_NE(
      refused(text).find("17 sinks, counting the log and the commands of rules; the maximum is 16"),
      std::string::npos);
}

}  // namespace
}  // namespace gpuyard::daemon
