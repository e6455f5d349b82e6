#include "gpu/device/health_tracker.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/device/fake_backend.h"
#include "gpu/device/gpu_snapshot.h"

namespace gpuyard {
namespace {

using Reasons = std::vector<std::string>;

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

}  // namespace

}  // namespace gpuyard
