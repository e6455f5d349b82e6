#include "core/andon/rule_engine.h"

#include <gtest/gtest.h>

#include "core/andon/alert_service_for_tests.h"
#include "core/andon/rule_reader.h"

namespace gpuyard::andon {
namespace {

using Kind = AlertTransition::Kind;

TEST(RuleEngine, ThresholdReachedForHoldTimeFires) {
  RecordProperty("contract", "C8");
  EngineRun run({hot_rule()});
  EXPECT_TRUE(run.stay(at_temperature(80), 10).empty());
  ASSERT_EQ(run.engine.pending_alerts(run.now).size(), 1U);
  EXPECT_EQ(run.engine.pending_alerts(run.now)[0].pending_duration, std::chrono::seconds(9));
  const auto changes = run.tick(at_temperature(80));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].kind, Kind::fired);
  EXPECT_EQ(changes[0].alert.message, "GPU 0 is at 80 C");
  EXPECT_EQ(changes[0].alert.severity, 50);
  EXPECT_EQ(key_of(changes[0].alert), "hot/GPU-0");
}

TEST(RuleEngine, DipBelowThresholdRestartsHold) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 9);
  run.tick(at_temperature(79.9));
  EXPECT_TRUE(run.stay(at_temperature(85), 10).empty());
  EXPECT_EQ(run.tick(at_temperature(85)).size(), 1U);
}

TEST(RuleEngine, BackwardClockStepRestartsHold) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 5);
  run.now -= std::chrono::minutes(30);
  EXPECT_TRUE(run.stay(at_temperature(85), 10).empty());
  EXPECT_EQ(run.tick(at_temperature(85)).size(), 1U);
}

TEST(RuleEngine, MissingReadingNeitherFiresNorResolves) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 9);
  EXPECT_TRUE(run.stay(at_temperature({}), 60).empty());
  run.stay(at_temperature(85), 11);
  ASSERT_EQ(run.engine.firing_alerts().size(), 1U);
  EXPECT_TRUE(run.stay(at_temperature({}), 3600).empty());
  EXPECT_EQ(run.engine.firing_alerts().size(), 1U);
  run.stay(at_temperature(60), 19);
  run.tick(at_temperature({}));  // so it was not clear for twenty seconds
  EXPECT_TRUE(run.stay(at_temperature(60), 20).empty());
  EXPECT_EQ(run.tick(at_temperature(60)).size(), 1U);
}

TEST(RuleEngine, ResolvesAfterClearHoldBeyondClearThreshold) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 11);
  EXPECT_TRUE(run.stay(at_temperature(76), 600).empty());
  EXPECT_TRUE(run.stay(at_temperature(75), 600).empty());
  EXPECT_TRUE(run.stay(at_temperature(74.9), 20).empty());
  const auto changes = run.tick(at_temperature(74.9));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].kind, Kind::resolved);
  EXPECT_EQ(changes[0].alert.state, AlertState::resolved);
  EXPECT_EQ(changes[0].alert.end_reason, "");
  EXPECT_TRUE(run.engine.firing_alerts().empty());
}

TEST(RuleEngine, OnlyAWorseLevelIsAChange) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(81), 11);
  EXPECT_TRUE(run.tick(at_temperature(85)).empty());
  EXPECT_EQ(run.engine.firing_alerts()[0].severity, 55);
  const auto changes = run.tick(at_temperature(91));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].kind, Kind::worse);
  EXPECT_EQ(changes[0].alert.severity, 61);
}

TEST(RuleEngine, ClearingAlertKeepsLastFiringMessage) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(90), 11);
  run.stay(at_temperature(60), 10);
  EXPECT_EQ(run.engine.firing_alerts()[0].message, "GPU 0 is at 90 C");
}

TEST(RuleEngine, MessageNamesThePodOfALease) {
  Rule rule = hot_rule();
  rule.message = "GPU {gpu} is {leased}";
  EngineRun run({rule});
  Facts facts = at_temperature(90);
  run.stay(facts, 11);
  EXPECT_EQ(run.engine.firing_alerts().at(0).message, "GPU 0 is leased");
  facts = at_temperature(91);
  facts.gpus[0].pod = "ml/trainer-0";
  run.tick(facts);
  EXPECT_EQ(run.engine.firing_alerts().at(0).message, "GPU 0 is leased to pod ml/trainer-0");
}

TEST(RuleEngine, LostGpuInhibitsOnlyAlertsOfSameGpu) {
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

TEST(RuleEngine, InhibitionAppliesWithinSameReading) {
  Rule hot = hot_rule();
  hot.hold = {};
  EngineRun run({hot, lost_rule()});
  Facts facts = at_temperature(90);
  facts.gpus[0].signals[Signal::lost] = 1;
  const auto changes = run.tick(facts);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.rule, "lost");
}

TEST(RuleEngine, RestoredAlertContinuesWithoutFiringAgain) {
  EngineRun before({hot_rule()});
  before.stay(at_temperature(85), 11);
  EngineRun run({hot_rule()});
  run.engine.restore(before.engine.firing_alerts(), 7, run.now);
  EXPECT_TRUE(run.stay(at_temperature({}), 30).empty());
  EXPECT_TRUE(run.stay(at_temperature(85), 30).empty());
  const auto changes = run.stay(at_temperature(60), 30);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].kind, Kind::resolved);
  EXPECT_EQ(changes[0].alert.number, 1U);
  run.stay(at_temperature(85), 11);
  EXPECT_EQ(run.engine.firing_alerts()[0].number, 8U);
}

TEST(RuleEngine, RemovedOrDisabledRuleResolvesAlerts) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 11);
  Rule off = hot_rule();
  off.enabled = false;
  auto changes = run.engine.replace({off}, kWall);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.end_reason, "its rule was disabled");
  run.engine.replace({hot_rule()}, kWall);
  run.stay(at_temperature(85), 11);
  changes = run.engine.replace({}, kWall);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.end_reason, "its rule was removed");
}

TEST(RuleEngine, AlertOfAbsentGpuResolvesAfterDay) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 11);
  const Facts none;
  EXPECT_TRUE(run.stay(none, 100).empty());
  run.now += std::chrono::hours(23);
  EXPECT_TRUE(run.stay(none, 100).empty());
  run.now += std::chrono::hours(1);
  const auto changes = run.stay(none, 100);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.end_reason, "the GPU is no longer in this machine");
}

TEST(RuleEngine, ReloadRestartsHoldOnlyOfChangedRules) {
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

TEST(RuleEngine, RuleLimitedToOtherGpusEndsAlert) {
  Rule rule = hot_rule();
  EngineRun run({rule});
  run.stay(at_temperature(85), 11);
  rule.gpus = {"1"};
  run.engine.replace({rule}, kWall);
  const auto changes = run.tick(at_temperature(85));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.end_reason, "its rule now applies to other GPUs");
  EXPECT_TRUE(run.engine.firing_alerts().empty());
}

TEST(RuleEngine, AnAlertFollowsItsGpuToAnotherIndex) {
  EngineRun run({hot_rule()});
  run.stay(at_temperature(85), 11);
  Facts facts = at_temperature(85);
  facts.gpus[0].info.index = 5;
  run.tick(facts);
  EXPECT_EQ(run.engine.firing_alerts()[0].message, "GPU 5 is at 85 C");
}

TEST(RuleEngine, MutuallyInhibitingAlertsStillResolve) {
  Rule one = hot_rule();
  one.inhibits = {"*"};
  Rule other = one;
  other.name = "hotter";
  EngineRun run({one, other});
  run.stay(at_temperature(85), 11);
  EXPECT_EQ(run.engine.firing_alerts().size(), 2U);
  run.stay(at_temperature(60), 60);
  EXPECT_TRUE(run.engine.firing_alerts().empty());
}

TEST(RuleEngine, RuleWithGpuListIgnoresOtherGpus) {
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

TEST(RuleEngine, NodeSignalYieldsSingleAlert) {
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

// The facts of a fleet at 85 C, by UUID and in the order of their indexes. With a `former` index
// the last GPU is no longer listed.
Facts hot_fleet(const std::vector<std::string>& uuids, std::optional<std::uint32_t> former = {}) {
  Facts facts;
  for (std::uint32_t i = 0; i < uuids.size(); ++i) {
    GpuFacts& gpu = facts.gpus.emplace_back(gpu_facts(i));
    gpu.info.id = gpu.info.uuid = uuids[i];
    gpu.signals[Signal::temperature] = 85;
  }
  if (former) {
    GpuFacts& gpu = facts.gpus.back();
    gpu.info.former_index = former;
    gpu.signals[Signal::temperature].reset();
    gpu.signals[Signal::missing] = 1;
    gpu.why = "not listed";
  }
  return facts;
}

std::vector<std::string> messages(const RuleEngine& engine) {
  std::vector<std::string> all;
  for (const Alert& alert : engine.firing_alerts()) all.push_back(alert.message);
  return all;
}

TEST(RuleEngine, ReusedIndexNamesNoGpu) {
  Rule rule = hot_rule();
  rule.gpus = {"GPU-b"};
  EngineRun run({rule});
  run.stay(hot_fleet({"GPU-a", "GPU-b", "GPU-c"}), 11);
  ASSERT_EQ(messages(run.engine), std::vector<std::string>{"GPU 1 is at 85 C"});
  EXPECT_FALSE(run.engine.is_index_reused(run.engine.firing_alerts()[0]));
  run.tick(hot_fleet({"GPU-a", "GPU-c", "GPU-b"}, 1));
  EXPECT_EQ(messages(run.engine), std::vector<std::string>{"GPU GPU-b (was 1) is at 85 C"});
  EXPECT_EQ(run.engine.firing_alerts()[0].index, 1U);
  EXPECT_TRUE(run.engine.is_index_reused(run.engine.firing_alerts()[0]));
  run.tick(hot_fleet({"GPU-a", "GPU-c"}));
  EXPECT_EQ(messages(run.engine), std::vector<std::string>{"GPU GPU-b (was 1) is at 85 C"});
  run.tick(hot_fleet({"GPU-a", "GPU-c", "GPU-b"}));
  EXPECT_EQ(messages(run.engine), std::vector<std::string>{"GPU 2 is at 85 C"});
}

TEST(RuleEngine, RestoredAlertOmitsReusedIndex) {
  EngineRun first({hot_rule()});
  first.stay(hot_fleet({"GPU-a", "GPU-b"}), 11);
  EngineRun next({hot_rule()});
  next.engine.restore(first.engine.firing_alerts(), 2, next.now);
  next.tick(hot_fleet({"GPU-b"}));
  EXPECT_EQ(messages(next.engine),
            (std::vector<std::string>{"GPU GPU-a (was 0) is at 85 C", "GPU 0 is at 85 C"}));
}

TEST(RuleEngine, MissingGpuFiresUntilTakenOut) {
  EngineRun run(built_in_rules());
  run.tick(hot_fleet({"GPU-a", "GPU-c", "GPU-b"}, 1));
  ASSERT_EQ(messages(run.engine),
            std::vector<std::string>{"GPU GPU-b (was 1) is missing: not listed"});
  EXPECT_EQ(run.engine.firing_alerts()[0].rule, "gpu-missing");
  const auto changes = run.engine.remove_gpu("GPU-b", "taken out", kWall);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].kind, Kind::resolved);
  EXPECT_EQ(changes[0].alert.end_reason, "taken out");
  EXPECT_TRUE(run.engine.firing_alerts().empty());
}

TEST(RuleEngine, HiddenGpuFiresOnceItHasBeenHealthyForFiveMinutes) {
  EngineRun run(built_in_rules());
  Facts facts;
  facts.gpus.push_back(gpu_facts(0));
  std::optional<double>& hides = facts.gpus[0].signals[Signal::plugin_hides];
  hides = 1;
  EXPECT_TRUE(run.stay(facts, 290).empty());
  hides = 0;  // quarantined
  EXPECT_TRUE(run.tick(facts).empty());
  hides = 1;
  EXPECT_TRUE(run.stay(facts, 300).empty()) << "before the hold";
  const auto fired = run.tick(facts);
  ASSERT_EQ(fired.size(), 1U);
  EXPECT_EQ(fired[0].alert.rule, "plugin-disagrees");
  EXPECT_NE(fired[0].alert.advice.find("`kubectl delete pod "), std::string::npos);
  EXPECT_FALSE(find_rule(built_in_rules(), "plugin-disagrees")->quarantine);
  hides.reset();
  EXPECT_TRUE(run.stay(facts, 600).empty()) << "unknown resolves nothing";
  hides = 0;
  EXPECT_EQ(run.tick(facts).size(), 1U);
}

TEST(RuleEngine, UnleasedProcessesAreNamedAsTheyChange) {
  EngineRun run(built_in_rules());
  Facts facts;
  facts.gpus.push_back(gpu_facts(0));
  facts.gpus[0].signals[Signal::unleased_processes] = 1;
  facts.gpus[0].unleased = "(PID 17 (python) of UID 1000)";
  EXPECT_TRUE(run.stay(facts, 30).empty()) << "before the hold";
  ASSERT_EQ(run.tick(facts).size(), 1U);
  EXPECT_EQ(messages(run.engine),
            std::vector<std::string>{
                "Processes without a lease on GPU 0: 1 (PID 17 (python) of UID 1000)"});
  EXPECT_FALSE(find_rule(built_in_rules(), "squatter")->quarantine);
  facts.gpus[0].unleased = "(PID 18 (python) of UID 1000)";
  EXPECT_TRUE(run.tick(facts).empty()) << "the same alert";
  EXPECT_EQ(messages(run.engine),
            std::vector<std::string>{
                "Processes without a lease on GPU 0: 1 (PID 18 (python) of UID 1000)"});
}

TEST(RuleEngine, RecoveryAlertNamesTheRequestThatIsInEffect) {
  EngineRun run(built_in_rules());
  Facts facts;
  facts.gpus.push_back(gpu_facts(0));
  std::optional<double>& action = facts.gpus[0].signals[Signal::recovery_needed];
  EXPECT_TRUE(run.stay(facts, 60).empty()) << "unknown";
  action = 0;
  EXPECT_TRUE(run.stay(facts, 60).empty());
  action = 4;
  const auto fired = run.tick(facts);
  ASSERT_EQ(fired.size(), 1U);
  EXPECT_EQ(fired[0].alert.rule, "recovery-needed");
  EXPECT_EQ(fired[0].alert.message,
            "GPU 0 needs recovery: the driver requests a drain and a reset of the GPU");
  EXPECT_NE(fired[0].alert.advice.find("`nvidia-smi --gpu-reset -i 0`"), std::string::npos);
  EXPECT_TRUE(find_rule(built_in_rules(), "recovery-needed")->quarantine);
  action = 2;
  run.tick(facts);
  EXPECT_EQ(messages(run.engine),
            std::vector<std::string>{"GPU 0 needs recovery: the driver requests a reboot of the "
                                     "machine"});
  action.reset();
  EXPECT_TRUE(run.stay(facts, 60).empty()) << "unknown resolves nothing";
  action = 0;
  EXPECT_EQ(run.tick(facts).size(), 1U);
}

TEST(RuleEngine, MemoryErrorAfterAcknowledgementNotifiesAgain) {
  for (const Metric metric : {Metric::ecc_uncorrected_volatile, Metric::ecc_corrected_volatile}) {
    Rule rule = hot_rule();
    rule.source = MetricSource{metric, 1};
    rule.at = 1;
    rule.clear_at.reset();
    rule.hold = {};
    rule.over = std::chrono::hours(1);
    rule.curve = Curve::none;
    EngineRun run({rule});
    Sample sample;
    Facts facts;
    facts.gpus.push_back(gpu_facts(0));
    facts.gpus[0].sample = &sample;
    const auto count = [&](std::int64_t errors) {
      sample.set({metric, 0, run.now, errors});
      return run.tick(facts);
    };
    count(0);
    EXPECT_EQ(count(1).size(), 1U);
    run.engine.acknowledge(1, {"uid 0", "", kWall});
    EXPECT_TRUE(count(1).empty());
    const bool news = metric == Metric::ecc_uncorrected_volatile;
    EXPECT_EQ(count(2).size(), news ? 1U : 0U);
    EXPECT_EQ(run.engine.firing_alerts()[0].acknowledged.has_value(), !news);
  }
}

TEST(Rule, MemoryErrorAlertsAreRecognized) {
  const Rules& rules = built_in_rules();
  const auto about = [&](const char* name, std::optional<std::uint32_t> xid = {}) {
    Alert alert;
    alert.xid = xid;
    return is_about_memory_errors(*find_rule(rules, name), alert);
  };
  EXPECT_TRUE(about("gpu-unhealthy"));
  EXPECT_TRUE(about("ecc-uncorrected"));
  EXPECT_TRUE(about("xid-fatal", 48));
  EXPECT_TRUE(about("xid-contained", 94));
  EXPECT_FALSE(about("xid-fatal", 79));
  EXPECT_FALSE(about("ecc-corrected"));
  EXPECT_FALSE(about("thermal"));
  EXPECT_TRUE(is_about_presence(*find_rule(rules, "gpu-missing")));
  EXPECT_TRUE(is_about_presence(*find_rule(rules, "gpu-lost")));
  EXPECT_FALSE(is_about_presence(*find_rule(rules, "gpu-unhealthy")));
}

}  // namespace
}  // namespace gpuyard::andon
