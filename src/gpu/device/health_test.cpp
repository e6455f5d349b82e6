#include "gpu/device/health.h"

#include <limits>

#include <gtest/gtest.h>

#include "gpu/device/fake_backend.h"
#include "gpu/device/gpu_snapshot.h"

namespace gpuyard {
namespace {

using Reasons = std::vector<std::string>;

const Missing kNotSupported{MissingReason::not_supported, ""};

HealthFacts at(std::int64_t celsius) {
  HealthFacts facts;
  facts.temperature = celsius;
  facts.ecc_errors = std::int64_t{0};
  return facts;
}

HealthReport report_of(const HealthFacts& facts) {
  return evaluate_health(facts, HealthThresholds{});
}

class HealthTest : public testing::Test {
 protected:
  HealthTest() { RecordProperty("contract", "A10"); }
};

TEST_F(HealthTest, IsGoodUpToTheFirstThreshold) {
  EXPECT_EQ(report_of(at(40)), (HealthReport{Health::healthy, {}}));
  EXPECT_EQ(report_of(at(75)).verdict, Health::healthy);
}

TEST_F(HealthTest, TemperatureThresholdsSeparateDegradedAndUnhealthy) {
  EXPECT_EQ(report_of(at(76)),
            (HealthReport{Health::degraded, {"temperature 76 C is above 75 C"}}));
  EXPECT_EQ(report_of(at(85)).verdict, Health::degraded);
  EXPECT_EQ(report_of(at(86)),
            (HealthReport{Health::unhealthy, {"temperature 86 C is above 85 C"}}));
}

TEST_F(HealthTest, IsBadAfterANewUncorrectableError) {
  HealthFacts facts = at(40);
  facts.ecc_errors = std::int64_t{9};
  EXPECT_EQ(report_of(facts).verdict, Health::healthy) << "old errors are known";
  facts.new_ecc_errors = 1;
  EXPECT_EQ(report_of(facts), (HealthReport{Health::unhealthy, {"1 new uncorrectable ECC error"}}));
}

TEST_F(HealthTest, IsOnlyDegradedByAContainedError) {
  HealthFacts facts = at(40);
  facts.contained = 1;
  EXPECT_EQ(
      report_of(facts),
      (HealthReport{Health::degraded, {"contained ECC error (Xid 94), until its process ends"}}));
}

TEST_F(HealthTest, IsBadWhenTheGpuIsGone) {
  HealthFacts facts;
  facts.lost = Missing{MissingReason::device_lost, "GPU is lost"};
  EXPECT_EQ(report_of(facts), (HealthReport{Health::unhealthy, {"GPU is lost"}}));
}

TEST_F(HealthTest, VerdictIsWorstFindingWithAllReasons) {
  HealthFacts facts = at(80);
  facts.new_ecc_errors = 2;
  EXPECT_EQ(report_of(facts),
            (HealthReport{Health::unhealthy,
                          {"temperature 80 C is above 75 C", "2 new uncorrectable ECC errors"}}));
}

TEST_F(HealthTest, MissingTemperatureGivesNoVerdict) {
  HealthFacts facts = at(0);
  facts.temperature = kNotSupported;
  EXPECT_EQ(
      report_of(facts),
      (HealthReport{std::nullopt, {"temperature unknown: not supported by this GPU or driver"}}));
}

TEST_F(HealthTest, UnsupportedTemperatureStillReportsEccErrors) {
  HealthFacts facts = at(0);
  facts.temperature = kNotSupported;
  facts.new_ecc_errors = 1;
  EXPECT_EQ(report_of(facts), (HealthReport{Health::unhealthy, {"1 new uncorrectable ECC error"}}));
}

TEST_F(HealthTest, GpuWithoutEccIsHealthy) {
  HealthFacts facts = at(40);
  facts.ecc_errors = kNotSupported;
  EXPECT_EQ(report_of(facts).verdict, Health::healthy);
}

TEST_F(HealthTest, UnreadableEccCounterIsNotGood) {
  HealthFacts facts = at(40);
  facts.ecc_errors = Missing{MissingReason::failed, "Unknown Error"};
  EXPECT_EQ(report_of(facts), (HealthReport{std::nullopt, {"ECC errors unknown: Unknown Error"}}));
}

TEST_F(HealthTest, UnreadFactsGiveNoVerdict) {
  EXPECT_EQ(report_of({}).verdict, std::nullopt);
  EXPECT_EQ(report_of({}).reasons,
            (Reasons{"temperature unknown: not read yet", "ECC errors unknown: not read yet"}));
}

TEST_F(HealthTest, PerGpuThresholdsMatchAnyGpuName) {
  const DeviceInfo info{"GPU-1", 3, "GPU-1", "0000:01:00.0", "GPU", {}};
  const HealthThresholds own{60, 70};
  for (const char* name : {"3", "GPU-1", "0000:01:00.0", "00000000:01:00.0"}) {
    const HealthPolicy policy{{}, {{name, own}}};
    EXPECT_EQ(policy.thresholds_of(info), own) << name;
  }
  const HealthPolicy others{{70, 80}, {{"4", own}, {"GPU-2", own}}};
  EXPECT_EQ(others.thresholds_of(info), (HealthThresholds{70, 80}));
}

TEST_F(HealthTest, HasAName) {
  EXPECT_EQ(name_of(Health::healthy), "healthy");
  EXPECT_EQ(name_of(Health::degraded), "degraded");
  EXPECT_EQ(name_of(Health::unhealthy), "unhealthy");
}

}  // namespace

namespace {

class HealthTrackerTest : public testing::Test {
 protected:
  HealthTrackerTest() { RecordProperty("contract", "A10"); }

  // Works as the owner does: reads, updates, evaluates.
  HealthReport evaluate_now() {
    DeviceState state = device_state(backend_->open(0), backend_->read(id_, kProbes), kProbes, {});
    tracker_.update(id_, state.sample);
    return tracker_.evaluate_health(state);
  }
  HealthReport evaluate(const DeviceState& state) { return tracker_.evaluate_health(state); }

  static constexpr ProbeSet kProbes = kSnapshotProbes;
  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(1, 1000);
  std::unique_ptr<Backend> backend_ = fleet_.backend();
  const DeviceId id_ = backend_->open(0).id;
  HealthTracker tracker_;
};

TEST_F(HealthTrackerTest, FollowsTheTemperatureUpAndDown) {
  EXPECT_EQ(evaluate_now().verdict, Health::healthy);
  fleet_.set_temperature(0, 80);
  EXPECT_EQ(evaluate_now().verdict, Health::degraded);
  fleet_.set_temperature(0, 90);
  EXPECT_EQ(evaluate_now().verdict, Health::unhealthy);
  fleet_.set_temperature(0, 40);
  EXPECT_EQ(evaluate_now().verdict, Health::healthy);
}

TEST_F(HealthTrackerTest, ANewErrorStaysUntilItIsAcknowledged) {
  RecordProperty("contract", "A9 A10");
  evaluate_now();
  fleet_.inject_ecc_error(0);
  EXPECT_EQ(evaluate_now().verdict, Health::unhealthy);
  EXPECT_EQ(evaluate_now().verdict, Health::unhealthy);
  tracker_.acknowledge(id_);
  EXPECT_EQ(evaluate_now().verdict, Health::healthy);
}

// GPUs whose time is not ours must not be compared; comparison is off at first.
TEST_F(HealthTrackerTest, EnabledPowerComparisonDegradesContradictingGpu) {
  const auto pass = [&] {
    for (int second = 1; second <= 20; ++second) {
      const TimePoint now{std::chrono::seconds(second)};
      Sample sample;
      sample.set({Metric::energy_total, 0, now, std::int64_t{1'000}});
      sample.set({Metric::power_draw, 0, now, std::int64_t{300'000}});
      sample.set({Metric::power_draw_average, 0, now, std::int64_t{300'000}});
      tracker_.update(id_, sample);
    }
  };
  pass();
  EXPECT_EQ(evaluate_now().verdict, Health::healthy) << "it is not compared at first";
  tracker_.set_power_comparison(true);
  pass();
  EXPECT_FALSE(tracker_.contradiction(id_).empty());
  const HealthReport report = evaluate_now();
  EXPECT_EQ(report.verdict, Health::degraded);
  EXPECT_EQ(report.reasons, std::vector{tracker_.contradiction(id_)});
  tracker_.set_power_comparison(false);
  EXPECT_EQ(evaluate_now().verdict, Health::healthy);
}

TEST_F(HealthTrackerTest, ALateStateIsComparedWithTheSample) {
  evaluate_now();
  const EccState seen = tracker_.errors_of(id_);
  EccState stored = seen;
  stored.base = stored.total = seen.total - 1;
  tracker_.restore(id_, stored, false);
  EXPECT_EQ(evaluate_now(), (HealthReport{Health::unhealthy, {"1 new uncorrectable ECC error"}}));
  tracker_.remove(id_);
  EXPECT_EQ(evaluate_now().verdict, Health::healthy);
}

TEST_F(HealthTrackerTest, ContainedErrorEndsWithItsProcess) {
  evaluate_now();
  tracker_.record_contained(id_, 4711);
  fleet_.inject_ecc_error(0);
  EXPECT_EQ(evaluate_now().verdict, Health::degraded);
  Sample with_list;
  with_list.set(ProcessList{{}, std::vector{GpuProcess{4711, {}, {}, {}}}});
  tracker_.update(id_, with_list);
  EXPECT_EQ(evaluate_now().verdict, Health::degraded) << "it still runs";
  with_list.set(ProcessList{{}, Missing{}});
  tracker_.update(id_, with_list);
  EXPECT_EQ(evaluate_now().verdict, Health::degraded) << "nobody knows whether it still runs";
  with_list.set(ProcessList{{}, std::vector<GpuProcess>{}});
  tracker_.update(id_, with_list);
  EXPECT_EQ(evaluate_now().verdict, Health::healthy);
}

TEST_F(HealthTrackerTest, UnattributedContainedErrorClearsAfterAllProcessesExit) {
  evaluate_now();
  Sample with_list;
  with_list.set(
      ProcessList{{}, std::vector{GpuProcess{4711, {}, {}, {}}, GpuProcess{4712, {}, {}, {}}}});
  tracker_.record_contained(id_, with_list);
  fleet_.inject_ecc_error(0);
  EXPECT_EQ(evaluate_now().verdict, Health::degraded);
  with_list.set(
      ProcessList{{}, std::vector{GpuProcess{4712, {}, {}, {}}, GpuProcess{4713, {}, {}, {}}}});
  tracker_.update(id_, with_list);
  EXPECT_EQ(evaluate_now().verdict, Health::degraded);
  with_list.set(ProcessList{{}, std::vector{GpuProcess{4713, {}, {}, {}}}});
  tracker_.update(id_, with_list);
  EXPECT_EQ(evaluate_now().verdict, Health::healthy);
}

TEST_F(HealthTrackerTest, LateAttributionLimitsContainedErrorToProcess) {
  evaluate_now();
  Sample with_list;
  with_list.set(
      ProcessList{{}, std::vector{GpuProcess{4711, {}, {}, {}}, GpuProcess{4712, {}, {}, {}}}});
  tracker_.record_contained(id_, with_list);
  tracker_.identify_contained(id_, 4711);
  with_list.set(ProcessList{{}, std::vector{GpuProcess{4712, {}, {}, {}}}});
  tracker_.update(id_, with_list);
  EXPECT_EQ(evaluate_now().verdict, Health::healthy);
}

TEST_F(HealthTrackerTest, ContainedErrorLastsUntilFirstProcessList) {
  evaluate_now();
  tracker_.record_contained(id_, Sample{});
  EXPECT_EQ(evaluate_now().verdict, Health::degraded);
  Sample with_list;
  with_list.set(ProcessList{{}, std::vector{GpuProcess{4712, {}, {}, {}}}});
  tracker_.update(id_, with_list);
  EXPECT_EQ(evaluate_now().verdict, Health::healthy);
}

TEST_F(HealthTrackerTest, LostGpuIsUnhealthyUntilReplugged) {
  evaluate_now();
  fleet_.remove_gpu(0);
  EXPECT_EQ(evaluate_now(), (HealthReport{Health::unhealthy, {"GPU is lost"}}));
  fleet_.replug_gpu(0);
  EXPECT_EQ(evaluate_now().verdict, Health::healthy);
}

TEST_F(HealthTrackerTest, LostGpuIsUnhealthyDespiteOldReadings) {
  DeviceState state;
  state.info.id = id_;
  state.condition = DeviceCondition::unavailable;
  state.sample.set({Metric::temperature_core, 0, {}, Missing{MissingReason::device_lost, "lost"}});
  state.sample.set({Metric::power_limit, 0, {}, std::int64_t{700'000}});
  EXPECT_EQ(evaluate(state), (HealthReport{Health::unhealthy, {"lost"}}));
}

TEST_F(HealthTrackerTest, InaccessibleGpuHasNoVerdict) {
  DeviceState state;
  state.info.fault = Missing{MissingReason::no_permission, "Insufficient Permissions"};
  state.condition = DeviceCondition::unavailable;
  EXPECT_EQ(evaluate(state).verdict, std::nullopt);
}

TEST_F(HealthTrackerTest, UnresponsiveGpuHasNoVerdict) {
  DeviceState state = device_state(backend_->open(0), backend_->read(id_, kProbes), kProbes, {});
  state.condition = DeviceCondition::unresponsive;
  state.why = "the driver has not answered for 1.0 s";
  EXPECT_EQ(evaluate(state).verdict, std::nullopt);
  EXPECT_EQ(evaluate(state).reasons.front(),
            "temperature unknown: the driver has not answered for 1.0 s");
}

TEST_F(HealthTrackerTest, ErrorsStayNewWhileGpuIsUnresponsive) {
  evaluate_now();
  fleet_.inject_ecc_error(0);
  evaluate_now();
  DeviceState state;
  state.info.id = id_;
  state.condition = DeviceCondition::unresponsive;
  EXPECT_EQ(evaluate(state).verdict, Health::unhealthy);
}

TEST_F(HealthTrackerTest, ThresholdsMayBeOfOneGpu) {
  tracker_ = HealthTracker({{}, {{"0", {30, 35}}}});
  EXPECT_EQ(evaluate_now().verdict, Health::unhealthy);
}

}  // namespace

namespace {

constexpr Metric kLifetime = Metric::ecc_uncorrected_aggregate;
constexpr Metric kSinceLoad = Metric::ecc_uncorrected_volatile;

class EccBaselineTest : public testing::Test {
 protected:
  EccBaselineTest() {
    RecordProperty("contract", "A9");
    baseline_.update(kLifetime, 5);
  }
  EccBaseline baseline_;
};

TEST_F(EccBaselineTest, ErrorsBeforeFirstReadAreNotNew) {
  EXPECT_EQ(baseline_.new_errors(), 0);
}

TEST_F(EccBaselineTest, GrowthIsNewUntilItIsAcknowledged) {
  baseline_.update(kLifetime, 7);
  EXPECT_EQ(baseline_.new_errors(), 2);
  baseline_.update(kLifetime, 7);
  EXPECT_EQ(baseline_.new_errors(), 2);
  baseline_.acknowledge();
  EXPECT_EQ(baseline_.new_errors(), 0);
  baseline_.update(kLifetime, 8);
  EXPECT_EQ(baseline_.new_errors(), 1);
}

TEST_F(EccBaselineTest, ClearingTheCounterStartsOver) {
  baseline_.update(kLifetime, 7);
  baseline_.update(kLifetime, 0);
  EXPECT_EQ(baseline_.new_errors(), 0);
  baseline_.update(kLifetime, 1);
  EXPECT_EQ(baseline_.new_errors(), 1);
}

TEST_F(EccBaselineTest, ErrorsBetweenClearAndNextReadAreNew) {
  baseline_.update(kLifetime, 2);
  EXPECT_EQ(baseline_.new_errors(), 2);
}

TEST_F(EccBaselineTest, AnotherCounterIsNoGrowthOfTheFirst) {
  baseline_.update(kSinceLoad, 9);
  EXPECT_EQ(baseline_.new_errors(), 0);
}

TEST_F(EccBaselineTest, ContainedErrorWaitsForProcessExit) {
  baseline_.add_contained(4711);
  baseline_.update(kLifetime, 6);
  EXPECT_EQ(baseline_.new_errors(), 0);
  EXPECT_EQ(baseline_.contained_pids().size(), 1U);
  baseline_.remove_process(4711);
  EXPECT_TRUE(baseline_.contained_pids().empty());
  EXPECT_EQ(baseline_.new_errors(), 0);
  baseline_.update(kLifetime, 7);
  EXPECT_EQ(baseline_.new_errors(), 1);
}

TEST_F(EccBaselineTest, AnotherCounterEndsNoVerdict) {
  baseline_.update(kLifetime, 7);
  baseline_.update(kSinceLoad, 2);
  EXPECT_EQ(baseline_.new_errors(), 2);
  baseline_.update(kSinceLoad, 3);
  EXPECT_EQ(baseline_.new_errors(), 3);
}

TEST_F(EccBaselineTest, AResetThatIsSeenMakesErrorsKnown) {
  baseline_.update(kLifetime, 7, 2);
  EXPECT_EQ(baseline_.new_errors(), 2);
  baseline_.update(kLifetime, 7, 0);
  EXPECT_EQ(baseline_.new_errors(), 0);
  baseline_.update(kLifetime, 8, 1);
  EXPECT_EQ(baseline_.new_errors(), 1);
}

TEST_F(EccBaselineTest, ErrorsRightAfterAResetAreNew) {
  baseline_.update(kLifetime, 9, 4);
  baseline_.update(kLifetime, 10, 1);
  EXPECT_EQ(baseline_.new_errors(), 1);
}

TEST_F(EccBaselineTest, UnreadCounterIsNoReset) {
  baseline_.update(kLifetime, 7, 2);
  baseline_.update(kLifetime, 7);
  EXPECT_EQ(baseline_.new_errors(), 2);
  baseline_.update(kLifetime, 7, 0);
  EXPECT_EQ(baseline_.new_errors(), 0);
}

TEST_F(EccBaselineTest, ARestartOfTheDaemonEndsNoVerdict) {
  baseline_.update(kLifetime, 7, 2);
  baseline_.add_contained(4711);
  EccBaseline after;
  after.restore(baseline_.state(), false);
  EXPECT_EQ(after.state(), baseline_.state());
  EXPECT_EQ(after.new_errors(), 1);
  EXPECT_EQ(after.contained_pids().size(), 1U);
  after.update(kLifetime, 8, 3);
  EXPECT_EQ(after.new_errors(), 2) << "one while no daemon was there";
}

TEST_F(EccBaselineTest, ARestartThatMissedAResetSeesIt) {
  baseline_.update(kLifetime, 7, 2);
  EccBaseline after;
  after.restore(baseline_.state(), false);
  after.update(kLifetime, 7, 0);
  EXPECT_EQ(after.new_errors(), 0);
}

TEST_F(EccBaselineTest, OnlyErrorsAfterRebootAreNew) {
  baseline_.update(kLifetime, 7, 2);
  baseline_.add_contained(4711);
  EccBaseline after;
  after.restore(baseline_.state(), true);
  EXPECT_EQ(after.new_errors(), 0);
  EXPECT_TRUE(after.contained_pids().empty());
  after.update(kLifetime, 12, 3);  // two before the reboot, three after it
  EXPECT_EQ(after.new_errors(), 3);
}

TEST(EccBaseline, CounterSinceLoadRestartsAtReboot) {
  EccBaseline before;
  before.update(kSinceLoad, 1, 1);
  before.update(kSinceLoad, 3, 3);
  EccBaseline after;
  after.restore(before.state(), true);
  after.update(kSinceLoad, 4, 4);
  EXPECT_EQ(after.new_errors(), 4);
  after.acknowledge();
  EXPECT_EQ(after.new_errors(), 0);
}

TEST_F(EccBaselineTest, TheLargestCounterIsNoOverflow) {
  baseline_.update(kLifetime, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(baseline_.new_errors(), std::numeric_limits<std::int64_t>::max() - 5);
}

}  // namespace
}  // namespace gpuyard
