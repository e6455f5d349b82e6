#include "andon/engine.h"

#include <gtest/gtest.h>

#include "andon/board_for_tests.h"

namespace gpuyard::andon {
namespace {

using Kind = Change::Kind;

TEST(Engine, FiresOnceItsThresholdIsReachedForAsLongAsItHolds) {
  RecordProperty("contract", "C8");
  EngineRun run({hot_rule()});
  EXPECT_TRUE(run.stay(at_temperature(80), 10).empty());
  ASSERT_EQ(run.engine.pending(run.now).size(), 1U);
  EXPECT_EQ(run.engine.pending(run.now)[0].for_so_long, std::chrono::seconds(9));
  const auto changes = run.tick(at_temperature(80));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].kind, Kind::fired);
  EXPECT_EQ(changes[0].alert.message, "GPU 0 is at 80 C");
  EXPECT_EQ(changes[0].alert.severity, 50);
  EXPECT_EQ(key_of(changes[0].alert), "hot/GPU-0");
}

TEST(Engine, ADipBeginsTheHoldAnew) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 9);
  run.tick(at_temperature(79.9));
  EXPECT_TRUE(run.stay(at_temperature(85), 10).empty());
  EXPECT_EQ(run.tick(at_temperature(85)).size(), 1U);
}

TEST(Engine, AClockThatGoesBackBeginsTheHoldAnew) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 5);
  run.now -= std::chrono::minutes(30);
  EXPECT_TRUE(run.stay(at_temperature(85), 10).empty());
  EXPECT_EQ(run.tick(at_temperature(85)).size(), 1U);
}

TEST(Engine, WhatIsMissingNeitherTripsNorClears) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 9);
  EXPECT_TRUE(run.stay(at_temperature({}), 60).empty());
  run.stay(at_temperature(85), 11);
  ASSERT_EQ(run.engine.firing().size(), 1U);
  EXPECT_TRUE(run.stay(at_temperature({}), 3600).empty());
  EXPECT_EQ(run.engine.firing().size(), 1U);
  run.stay(at_temperature(60), 19);
  run.tick(at_temperature({}));  // so it was not clear for twenty seconds
  EXPECT_TRUE(run.stay(at_temperature(60), 20).empty());
  EXPECT_EQ(run.tick(at_temperature(60)).size(), 1U);
}

TEST(Engine, ClearsOnlyBeyondItsClearLevelAndForItsClearHold) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 11);
  EXPECT_TRUE(run.stay(at_temperature(76), 600).empty());
  EXPECT_TRUE(run.stay(at_temperature(75), 600).empty());
  EXPECT_TRUE(run.stay(at_temperature(74.9), 20).empty());
  const auto changes = run.tick(at_temperature(74.9));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].kind, Kind::resolved);
  EXPECT_EQ(changes[0].alert.state, State::resolved);
  EXPECT_EQ(changes[0].alert.ending, "");
  EXPECT_TRUE(run.engine.firing().empty());
}

TEST(Engine, OnlyAWorseLevelIsAChange) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(81), 11);
  EXPECT_TRUE(run.tick(at_temperature(85)).empty());
  EXPECT_EQ(run.engine.firing()[0].severity, 55);
  const auto changes = run.tick(at_temperature(91));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].kind, Kind::worse);
  EXPECT_EQ(changes[0].alert.severity, 61);
}

TEST(Engine, WhileItClearsAnAlertIsAsBadAsItLastWas) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(90), 11);
  run.stay(at_temperature(60), 10);
  EXPECT_EQ(run.engine.firing()[0].message, "GPU 0 is at 90 C");
}

TEST(Engine, ALostGpuKeepsItsOtherAlertsQuietAndNoOtherGpus) {
  EngineRun run({hot_rule(), lost_rule()});
  Facts facts = at_temperature(90);
  facts.gpus.push_back(gpu_facts(1));
  facts.gpus[0].signals[Signal::lost] = 1;
  facts.gpus[1].signals[Signal::lost] = 0;
  facts.gpus[1].signals[Signal::temperature] = 90;
  const auto changes = run.stay(facts, 30);
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(key_of(changes[0].alert), "lost/GPU-0");
  EXPECT_EQ(key_of(changes[1].alert), "hot/GPU-1");
  EXPECT_EQ(run.engine.inhibitor("hot", "GPU-0"), "lost");
  EXPECT_EQ(run.engine.inhibitor("hot", "GPU-1"), "");
}

TEST(Engine, WhatIsKeptQuietGetsNoWordInWithinTheSameReading) {
  Rule hot = hot_rule();
  hot.hold = {};
  EngineRun run({hot, lost_rule()});
  Facts facts = at_temperature(90);
  facts.gpus[0].signals[Signal::lost] = 1;
  const auto changes = run.tick(facts);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.rule, "lost");
}

TEST(Engine, WhatFiredBeforeARestartGoesOnAndIsNoNews) {
  EngineRun before({hot_rule()});
  before.stay(at_temperature(85), 11);
  EngineRun run({hot_rule()});
  run.engine.restore(before.engine.firing(), 7, run.now);
  EXPECT_TRUE(run.stay(at_temperature({}), 30).empty());
  EXPECT_TRUE(run.stay(at_temperature(85), 30).empty());
  const auto changes = run.stay(at_temperature(60), 30);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].kind, Kind::resolved);
  EXPECT_EQ(changes[0].alert.number, 1U);
  run.stay(at_temperature(85), 11);
  EXPECT_EQ(run.engine.firing()[0].number, 8U);
}

TEST(Engine, WhatARuleHadIsOverWhenTheRuleIsGoneOrSwitchedOff) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 11);
  Rule off = hot_rule();
  off.enabled = false;
  auto changes = run.engine.replace({off}, kWall);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.ending, "its rule was switched off");
  run.engine.replace({hot_rule()}, kWall);
  run.stay(at_temperature(85), 11);
  changes = run.engine.replace({}, kWall);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.ending, "its rule is gone");
}

TEST(Engine, AnAlertOfAGpuThatIsNotListedStaysForADay) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 11);
  const Facts none;
  EXPECT_TRUE(run.stay(none, 100).empty());
  run.now += std::chrono::hours(23);
  EXPECT_TRUE(run.stay(none, 100).empty());
  run.now += std::chrono::hours(1);
  const auto changes = run.stay(none, 100);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.ending, "the GPU is not in this machine any more");
}

TEST(Engine, ReadingTheSameRulesAgainBeginsNoHoldAnew) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 8);
  run.engine.replace({hot_rule()}, kWall);
  EXPECT_TRUE(run.stay(at_temperature(85), 2).empty());
  EXPECT_EQ(run.tick(at_temperature(85)).size(), 1U);
  Rule other = hot_rule();
  other.at = 82;
  run.stay(at_temperature(60), 60);
  run.stay(at_temperature(85), 8);
  run.engine.replace({other}, kWall);
  EXPECT_TRUE(run.stay(at_temperature(85), 10).empty());
}

TEST(Engine, AnAlertEndsWhenItsRuleIsAboutOtherGpus) {
  Rule rule = hot_rule();
  EngineRun run({rule});
  run.stay(at_temperature(85), 11);
  rule.gpus = {"1"};
  run.engine.replace({rule}, kWall);
  const auto changes = run.tick(at_temperature(85));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.ending, "its rule is about others now");
  EXPECT_TRUE(run.engine.firing().empty());
}

TEST(Engine, AnAlertFollowsItsGpuToAnotherIndex) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 11);
  Facts facts = at_temperature(85);
  facts.gpus[0].info.index = 5;
  run.tick(facts);
  EXPECT_EQ(run.engine.firing()[0].message, "GPU 5 is at 85 C");
}

TEST(Engine, TwoThatKeepEachOtherQuietStillEnd) {
  Rule one = hot_rule();
  one.inhibits = {"*"};
  Rule other = one;
  other.name = "hotter";
  EngineRun run({one, other});
  run.stay(at_temperature(85), 11);
  EXPECT_EQ(run.engine.firing().size(), 2U);
  run.stay(at_temperature(60), 60);
  EXPECT_TRUE(run.engine.firing().empty());
}

TEST(Engine, ARuleForSomeGpusLooksAtNoOthers) {
  Rule rule = hot_rule();
  rule.gpus = {"1"};
  EngineRun run({rule});
  Facts facts = at_temperature(90);
  facts.gpus.push_back(gpu_facts(1));
  facts.gpus[1].signals[Signal::temperature] = 90;
  const auto changes = run.stay(facts, 30);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.gpu, "GPU-1");
}

TEST(Engine, LooksAtTheMachineOnce) {
  Rule rule;
  rule.name = "disk";
  rule.source = Signal::disk_free;
  rule.below = true;
  rule.at = 5;
  rule.clear_at = 8;
  EngineRun run({rule});
  Facts facts = at_temperature({});
  facts.node[Signal::disk_free] = 5;
  const auto changes = run.stay(facts, 3);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(key_of(changes[0].alert), "disk/node");
  facts.node[Signal::disk_free] = 8;
  EXPECT_TRUE(run.stay(facts, 3).empty());
  facts.node[Signal::disk_free] = 8.1;
  EXPECT_EQ(run.stay(facts, 3).size(), 1U);
}

}  // namespace
}  // namespace gpuyard::andon
