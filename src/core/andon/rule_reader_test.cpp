#include "core/andon/rule_reader.h"

#include <gtest/gtest.h>

#include "gpu/device/xid.h"

namespace gpuyard::andon {
namespace {

Result<Rules> read(std::string_view text) {
  return apply_rules(built_in_rules(), text, "alerts.toml");
}

std::string refused(std::string_view text) {
  const auto rules = read(text);
  return rules ? "it was taken" : rules.error().message;
}

TEST(RuleReader, BuiltInRulesParseAndHaveAdvice) {
  const auto rules = apply_rules({}, built_in_text(), "built-in");
  ASSERT_TRUE(rules) << rules.error().message;
  EXPECT_GE(rules->size(), 25U);
  for (const Rule& rule : *rules) {
    EXPECT_FALSE(rule.advice.empty()) << rule.name;
    EXPECT_TRUE(rule.advice.ends_with('.')) << rule.name;
    EXPECT_TRUE(rule.is_of_node() || rule.message.find("{gpu}") != std::string::npos) << rule.name;
  }
}

TEST(RuleReader, BuiltInThresholdsMatchContract) {
  RecordProperty("contract", "C7");
  const auto at = [](std::string_view name) { return find_rule(built_in_rules(), name)->at; };
  EXPECT_EQ(at("thermal"), 80);
  EXPECT_EQ(at("memory"), 90);
  EXPECT_EQ(at("power"), 95);
  EXPECT_EQ(at("idle"), 300);
}

TEST(RuleReader, QuarantineRuleListsAllStopXids) {
  const Rule* const fatal = find_rule(built_in_rules(), "xid-fatal");
  ASSERT_NE(fatal, nullptr);
  EXPECT_TRUE(fatal->quarantine);
  std::vector<std::uint32_t> stops;
  for (const XidRow& row : xid_table()) {
    if (row.severity == EventSeverity::stop) stops.push_back(row.number);
  }
  EXPECT_EQ(std::get<EventCondition>(fatal->source).xids, stops);
}

TEST(RuleReader, IdleTimeAloneIsNotCritical) {
  const Rule* const idle = find_rule(built_in_rules(), "idle");
  ASSERT_NE(idle, nullptr);
  for (const double seconds : {300.0, 601.0, 3600.0 * 24 * 7}) {
    EXPECT_EQ(idle->severity_of(seconds), 40) << seconds;
  }
  const auto rules = read("[rule.idle]\ncurve = 'idle'\n");
  ASSERT_TRUE(rules) << rules.error().message;
  EXPECT_EQ(find_rule(*rules, "idle")->severity_of(601), 90);
}

TEST(RuleReader, EventSeverityIsAcceptedOnlyInEventRules) {
  const auto rules = read(
      "[rule.mine]\non = 'xid'\nxids = [149]\nevent_severity = ['warn', 'stop']\nat = 1\n"
      "over_s = 60\nmessage = 'GPU {gpu}: {text}'\n");
  ASSERT_TRUE(rules) << rules.error().message;
  EXPECT_EQ(std::get<EventCondition>(find_rule(*rules, "mine")->source).severities,
            (std::vector<EventSeverity>{EventSeverity::warn, EventSeverity::stop}));
  EXPECT_EQ(refused("[rule.xid-fatal]\nevent_severity = ['bad']\n"),
            "alerts.toml:2: rule xid-fatal: event_severity: expected a list of \"note\", \"warn\" "
            "and \"stop\"; got [\"bad\"]");
  EXPECT_NE(refused("[rule.thermal]\nevent_severity = ['stop']\n")
                .find("only allowed in a rule on events"),
            std::string::npos);
}

TEST(RuleReader, ExistingNameOverridesOnlyGivenKeys) {
  const auto rules = read("[rule.thermal]\nat = 85\n");
  ASSERT_TRUE(rules) << rules.error().message;
  const Rule* const thermal = find_rule(*rules, "thermal");
  EXPECT_EQ(thermal->at, 85);
  EXPECT_EQ(thermal->hold, std::chrono::seconds(10));
  EXPECT_EQ(thermal->curve, Curve::thermal);
  EXPECT_EQ(rules->size(), built_in_rules().size());
}

TEST(RuleReader, FileDisablesBuiltInAndAddsMetricRule) {
  const auto rules = read(
      "[rule.memory]\nenabled = false\n[sink.x]\nkind = 'log'\n"
      "[rule.hbm]\non = 'temperature_memory_celsius'\nat = 95\nmessage = 'GPU {gpu}: {value}'\n"
      "cap_w = 250\ncommand = ['/bin/true']\ngpus = ['0']\n");
  ASSERT_TRUE(rules) << rules.error().message;
  EXPECT_FALSE(find_rule(*rules, "memory")->enabled);
  const Rule* const hbm = find_rule(*rules, "hbm");
  EXPECT_EQ(std::get<MetricSource>(hbm->source).metric, Metric::temperature_memory);
  EXPECT_EQ(hbm->cap_w, 250);
}

TEST(RuleReader, ErrorsNameFileLineAndAllowedValues) {
  EXPECT_EQ(refused("[rule.x]\nat = 1\n"),
            "alerts.toml:1: rule x: missing key on, for example on = \"temperature_c\"");
  EXPECT_EQ(refused("\n[rule.thermal]\nat = 'hot'\n"),
            "alerts.toml:3: rule thermal: at: expected a number from -1e15 to 1e15; got \"hot\"");
  EXPECT_EQ(refused("[rule.thermal]\nhold_s = -1\n"),
            "alerts.toml:2: rule thermal: hold_s: expected a number of seconds from 0 to 2592000; "
            "got -1");
  EXPECT_EQ(refused("[rule.thermal]\nseverity = 101\n"),
            "alerts.toml:2: rule thermal: severity: expected an integer from 0 to 100; got 101");
  EXPECT_EQ(refused("[rule.thermal]\nclear_at = 81\n"),
            "alerts.toml:1: rule thermal: clear_at is on the wrong side of at: the rule would "
            "clear while at is reached");
  EXPECT_EQ(refused("[rule.thermal]\nat = 85\nhodl_s = 3\n"),
            "alerts.toml:3: rule thermal: unknown key \"hodl_s\" (did you mean \"hold_s\"?)");
  EXPECT_NE(refused("[rule.thermal]\nq = 3\n").find("unknown key \"q\"; known keys: on enabled at"),
            std::string::npos);
  EXPECT_NE(refused("[rule.x]\non = 'temprature'\n")
                .find("alerts.toml:2: rule x: on: unknown name \"temprature\"; known names: "
                      "temperature_c"),
            std::string::npos);
  EXPECT_NE(refused("[rule.thermal]\nmessage = 'at {temp}'\n")
                .find("unknown placeholder {temp}; known placeholders: {gpu}"),
            std::string::npos);
  EXPECT_NE(refused("[rule.thermal]\nxids = [79]\n").find("only allowed with on = \"xid\""),
            std::string::npos);
  EXPECT_NE(refused("[rule.disk-full]\nquarantine = true\n").find("it is about the machine"),
            std::string::npos);
  EXPECT_NE(refused("[rule.\"no name\"]\nat = 1\n").find("invalid rule name \"no name\""),
            std::string::npos);
  EXPECT_NE(refused("[rules.thermal]\nat = 1\n").find("alerts.toml:1: unknown \"rules\""),
            std::string::npos);
  EXPECT_NE(refused("[rule.thermal\n").find("alerts.toml:1: "), std::string::npos);
  EXPECT_NE(refused("[rule.thermal]\nat = 1e300\n").find("at: expected a number"),
            std::string::npos);
  EXPECT_NE(refused("[rule.thermal]\ninhibits = ['hto']\n").find("unknown rule \"hto\""),
            std::string::npos);
  EXPECT_NE(refused("[rule.xid-fatal]\nat = 1025\n").find("1 to 1024"), std::string::npos);
  EXPECT_NE(refused("[rule.thermal]\ncommand = ['']\n").find("command is empty"),
            std::string::npos);
  EXPECT_NE(refused("[rule.thermal]\nat = inf\n").find("at: expected a number"), std::string::npos);
}

TEST(RuleReader, TooManyRulesAreRefused) {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += "[rule.r" + std::to_string(i) + "]\non = 'temperature_c'\nat = 1\nmessage = 'x'\n";
  }
  EXPECT_NE(refused(text).find("more than 256 rules"), std::string::npos);
}

}  // namespace
}  // namespace gpuyard::andon
