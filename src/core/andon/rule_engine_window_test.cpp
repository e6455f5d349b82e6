// Rules on the number or the growth of something in a window: Xids, counters.
#include "core/andon/rule_engine.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/andon/alert_service_for_tests.h"

namespace gpuyard::andon {
namespace {

using Kind = AlertTransition::Kind;

Rule xid_rule(std::string name, std::vector<std::uint32_t> xids) {
  Rule rule;
  rule.name = std::move(name);
  rule.source = EventCondition{EventKind::xid, std::move(xids)};
  rule.at = 1;
  rule.over = std::chrono::seconds(60);
  rule.message = "GPU {gpu}: Xid {xid}. {meaning}";
  return rule;
}

DeviceEvent xid_event(std::uint32_t number, TimePoint at) {
  DeviceEvent event;
  event.device = "GPU-0";
  event.at = at;
  event.xid = number;
  return event;
}

TEST(RuleEngine, XidAlertResolvesAfterWindowWithoutXids) {
  EngineRun run({xid_rule("fatal", {79}), xid_rule("other", {})});
  run.engine.on_event(xid_event(79, run.now));
  const auto changes = run.tick(at_temperature({}));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.rule, "fatal");
  EXPECT_EQ(changes[0].alert.message, "GPU 0: Xid 79. The GPU has fallen off the bus.");
  EXPECT_TRUE(run.stay(at_temperature({}), 30).empty());
  run.engine.on_event(xid_event(79, run.now));
  EXPECT_TRUE(run.stay(at_temperature({}), 59).empty());
  EXPECT_EQ(run.stay(at_temperature({}), 2).size(), 1U);
}

DeviceEvent line_event(std::uint32_t number, TimePoint at, std::string line) {
  DeviceEvent event = xid_event(number, at);
  event.text = std::move(line);
  return event;
}

EngineRun with_built_in_rules() {
  return EngineRun(built_in_rules());
}

constexpr const char* kFatalLine = "NETIR_LINK_DOWN Fatal XC0 i0 Link 14";
constexpr const char* kNonfatalLine = "RLW_SRC_TRACK Nonfatal XC1 i0 Link 17";

TEST(RuleEngine, FatalXidLineQuarantinesAndIsQuoted) {
  EngineRun run = with_built_in_rules();
  run.engine.on_event(line_event(149, run.now, kFatalLine));
  const auto changes = run.tick(at_temperature({}));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.rule, "xid-declared-fatal");
  EXPECT_EQ(changes[0].alert.severity, 90);
  EXPECT_EQ(changes[0].alert.message,
            "GPU 0: Xid 149. An NVLink error in the network interface (NETIR). (NETIR_LINK_DOWN "
            "Fatal XC0 i0 Link 14)");
  EXPECT_TRUE(find_rule(built_in_rules(), changes[0].alert.rule)->quarantine);
}

TEST(RuleEngine, NonfatalKernelLineIsWarning) {
  EngineRun run = with_built_in_rules();
  run.engine.on_event(line_event(145, run.now, kNonfatalLine));
  const auto changes = run.tick(at_temperature({}));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.rule, "xid-nvlink");
  EXPECT_EQ(
      changes[0].alert.message,
      "GPU 0: Xid 145. An NVLink error in the RLW unit. (RLW_SRC_TRACK Nonfatal XC1 i0 Link 17)");
}

TEST(RuleEngine, LaterKernelLineDecidesSeverity) {
  EngineRun run = with_built_in_rules();
  run.engine.on_event(xid_event(149, run.now));
  run.engine.on_echo(line_event(149, run.now, kFatalLine));
  auto changes = run.tick(at_temperature({}));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.rule, "xid-declared-fatal");
  run.engine.on_event(xid_event(31, run.now));
  changes = run.tick(at_temperature({}));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.value, 1);
  run.engine.on_echo(line_event(31, run.now, "Ch 00000008"));
  EXPECT_TRUE(run.tick(at_temperature({})).empty()) << "words are no news";
  EXPECT_EQ(run.engine.firing_alerts()[1].message,
            "GPU 0: Xid 31. A program accessed an unmapped GPU memory address. (Ch 00000008)");
  EXPECT_EQ(run.engine.firing_alerts()[1].value, 1);
}

TEST(RuleEngine, RedundantDriverTextIsOmitted) {
  EngineRun run = with_built_in_rules();
  run.engine.on_event(line_event(79, run.now, "GPU has fallen off the bus."));
  const auto changes = run.tick(at_temperature({}));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.message, "GPU 0: Xid 79. The GPU has fallen off the bus.");
}

TEST(RuleEngine, DriverTextSurvivesRestart) {
  EngineRun before = with_built_in_rules();
  for (int i = 0; i < 3; ++i) before.engine.on_event(line_event(149, before.now, kFatalLine));
  before.tick(at_temperature({}));
  auto firing = before.engine.firing_alerts();
  ASSERT_EQ(firing.size(), 1U);
  const std::string message = firing[0].message;
  firing[0].driver_text.clear();  // not on the disk
  EngineRun run = with_built_in_rules();
  run.engine.restore(firing, 1, run.now);
  run.stay(at_temperature({}), 3);
  EXPECT_EQ(run.engine.firing_alerts()[0].message, message);
  EXPECT_EQ(run.engine.firing_alerts()[0].value, 1) << "it was described again";
}

TEST(RuleEngine, FullWindowEvictsNotesBeforeStopEvents) {
  EngineRun run = with_built_in_rules();
  for (std::size_t i = 0; i < RuleEngine::kMaxEvents; ++i) {
    run.engine.on_event(xid_event(31, run.now));
  }
  EXPECT_EQ(run.engine.dropped_events(), 0U);
  run.engine.on_event(xid_event(79, run.now));
  run.engine.on_event(xid_event(13, run.now));
  EXPECT_EQ(run.engine.dropped_events(), 2U);
  const auto changes = run.tick(at_temperature({}));
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].alert.rule, "xid-fatal");
  EXPECT_EQ(changes[1].alert.rule, "xid-program");
}

TEST(RuleEngine, UnlistedXidMatchesCatchAllRule) {
  EngineRun run({xid_rule("fatal", {79}), xid_rule("other", {})});
  run.engine.on_event(xid_event(31, run.now));
  const auto changes = run.tick(at_temperature({}));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.rule, "other");
}

TEST(RuleEngine, CounterGrowthFiresAndResetDoesNot) {
  Rule rule;
  rule.name = "replays";
  rule.source = MetricSource{Metric::pcie_replays, 1};
  rule.at = 10;
  rule.over = std::chrono::seconds(60);
  EngineRun run({rule});
  Sample sample;
  const auto counted = [&](std::int64_t count, int seconds) {
    sample.set(Reading{Metric::pcie_replays, 0, run.now, count});
    Facts facts = at_temperature({});
    facts.gpus[0].sample = &sample;
    return run.stay(facts, seconds);
  };
  EXPECT_TRUE(counted(1'000'000, 5).empty());  // earlier counts are no news
  EXPECT_TRUE(counted(1'000'009, 5).empty());
  EXPECT_EQ(counted(1'000'010, 1).size(), 1U);
  EXPECT_EQ(counted(1'000'010, 70).size(), 1U);  // clear
  EXPECT_TRUE(counted(0, 5).empty());
  EXPECT_EQ(counted(15, 1).size(), 1U);  // by the new count
}

TEST(RuleEngine, RestoredXidAlertRestartsItsWindow) {
  EngineRun before({xid_rule("fatal", {79})});
  before.engine.on_event(xid_event(79, before.now));
  before.tick(at_temperature({}));
  EngineRun run({xid_rule("fatal", {79})});
  run.engine.restore(before.engine.firing_alerts(), 1, run.now);
  EXPECT_TRUE(run.stay(at_temperature({}), 59).empty());
  EXPECT_EQ(run.stay(at_temperature({}), 2).size(), 1U);
}

TEST(RuleEngine, NewXidAfterAcknowledgementNotifiesAgain) {
  EngineRun run({xid_rule("fatal", {48, 62})});
  run.engine.on_event(xid_event(62, run.now));
  run.tick(at_temperature({}));
  run.engine.acknowledge(1, {"uid 0", "", kWall});
  run.engine.record_notified(1, 90, {"ops"});
  run.engine.on_event(xid_event(62, run.now));
  const auto changes = run.tick(at_temperature({}));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].kind, Kind::worse);
  EXPECT_FALSE(changes[0].alert.acknowledged);
  EXPECT_FALSE(changes[0].alert.notified_severity);
  EXPECT_EQ(changes[0].alert.notified_sinks, std::vector<std::string>{"ops"});
  run.engine.on_event(xid_event(62, run.now));
  EXPECT_TRUE(run.tick(at_temperature({})).empty());
  run.engine.on_event(xid_event(48, run.now));
  EXPECT_EQ(run.tick(at_temperature({})).size(), 1U);
  EXPECT_EQ(run.engine.firing_alerts()[0].xid, 48U);
}

TEST(RuleEngine, NewXidDuringInhibitionIsReportedAfterward) {
  EngineRun run({xid_rule("fatal", {48, 79}), lost_rule()});
  const auto look = [&run](double is_lost) {
    Facts facts = at_temperature({});
    facts.gpus[0].signals[Signal::lost] = is_lost;
    return run.tick(facts);
  };
  run.engine.on_event(xid_event(48, run.now));
  look(0);
  run.engine.acknowledge(1, {"uid 0", "", kWall});
  run.engine.record_notified(1, 90, {"ops"});
  run.engine.on_event(xid_event(79, run.now));
  ASSERT_EQ(look(1).size(), 1U);  // the rule for a lost GPU
  ASSERT_NE(run.engine.find(1), nullptr);
  EXPECT_TRUE(run.engine.find(1)->notified_severity);
  EXPECT_TRUE(run.engine.find(1)->acknowledged);
  const auto changes = look(0);
  const auto news = std::ranges::find(changes, Kind::worse, &AlertTransition::kind);
  ASSERT_NE(news, changes.end());
  EXPECT_EQ(news->alert.xid, 79U);
  EXPECT_FALSE(news->alert.notified_severity);
  EXPECT_FALSE(news->alert.acknowledged);
}

TEST(RuleEngine, XidOfDisabledRuleSkipsCatchAllRule) {
  Rule off = xid_rule("program", {13, 31});
  off.enabled = false;
  EngineRun run({off, xid_rule("other", {})});
  run.engine.on_event(xid_event(31, run.now));
  EXPECT_TRUE(run.tick(at_temperature({})).empty());
  run.engine.on_event(xid_event(32, run.now));
  EXPECT_EQ(run.tick(at_temperature({})).size(), 1U);
}

// The growth before a restart is not known, so a restored alert cannot resolve until a full window
// has passed.
TEST(RuleEngine, RestoredCounterAlertResolvesAfterFullWindow) {
  Rule rule;
  rule.name = "ecc";
  rule.source = MetricSource{Metric::ecc_uncorrected_volatile, 1};
  rule.at = 1;
  rule.over = std::chrono::seconds(60);
  Alert alert;
  alert.number = 3;
  alert.rule = "ecc";
  alert.gpu = "GPU-0";
  alert.severity = 50;
  EngineRun run({rule});
  run.engine.restore({alert}, 3, run.now);
  Sample sample;
  sample.set(Reading{Metric::ecc_uncorrected_volatile, 0, run.now, std::int64_t{1}});
  Facts facts = at_temperature({});
  facts.gpus[0].sample = &sample;
  EXPECT_TRUE(run.stay(facts, 59).empty());
  EXPECT_EQ(run.stay(facts, 2).size(), 1U);
}

TEST(RuleEngine, ReplacedSourceStartsNewCounterWindow) {
  Rule rule;
  rule.name = "replays";
  rule.on = "pcie_replays";
  rule.source = MetricSource{Metric::pcie_replays, 1};
  rule.at = 10;
  rule.over = std::chrono::seconds(60);
  EngineRun run({rule});
  Sample sample;
  sample.set(Reading{Metric::pcie_replays, 0, run.now, std::int64_t{5}});
  sample.set(Reading{Metric::ecc_corrected_volatile, 0, run.now, std::int64_t{1'000'000}});
  Facts facts = at_temperature({});
  facts.gpus[0].sample = &sample;
  run.stay(facts, 5);
  rule.on = "ecc_corrected_volatile";
  rule.source = MetricSource{Metric::ecc_corrected_volatile, 1};
  run.engine.replace({rule}, kWall);
  EXPECT_TRUE(run.stay(facts, 5).empty());
}

}  // namespace
}  // namespace gpuyard::andon
