#include "device/health_watch.h"

#include <gtest/gtest.h>

#include "device/fake_backend.h"
#include "device/gpu_snapshot.h"

namespace gpuyard {
namespace {

class HealthWatchTest : public testing::Test {
 protected:
  HealthWatchTest() { RecordProperty("contract", "A10"); }

  // As its owner does: reads, notes, judges.
  HealthReport look() {
    DeviceState state = device_state(backend_->open(0), backend_->read(id_, kProbes), kProbes, {});
    watch_.note(id_, state.sample);
    return watch_.judge(state);
  }
  HealthReport judge(const DeviceState& state) { return watch_.judge(state); }

  static constexpr ProbeSet kProbes = kSnapshotProbes;
  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(1, 1000);
  std::unique_ptr<Backend> backend_ = fleet_.backend();
  const DeviceId id_ = backend_->open(0).id;
  HealthWatch watch_;
};

TEST_F(HealthWatchTest, FollowsTheTemperatureUpAndDown) {
  EXPECT_EQ(look().verdict, Health::healthy);
  fleet_.set_temperature(0, 80);
  EXPECT_EQ(look().verdict, Health::degraded);
  fleet_.set_temperature(0, 90);
  EXPECT_EQ(look().verdict, Health::unhealthy);
  fleet_.set_temperature(0, 40);
  EXPECT_EQ(look().verdict, Health::healthy);
}

TEST_F(HealthWatchTest, ANewErrorStaysUntilItIsAcknowledged) {
  RecordProperty("contract", "A9 A10");
  look();
  fleet_.inject_ecc_error(0);
  EXPECT_EQ(look().verdict, Health::unhealthy);
  EXPECT_EQ(look().verdict, Health::unhealthy);
  watch_.acknowledge(id_);
  EXPECT_EQ(look().verdict, Health::healthy);
}

TEST_F(HealthWatchTest, AContainedErrorIsOverWhenItsProcessIsGone) {
  look();
  watch_.note_contained(id_, 4711);
  fleet_.inject_ecc_error(0);
  EXPECT_EQ(look().verdict, Health::degraded);
  Sample with_list;
  with_list.set(ProcessList{{}, std::vector{GpuProcess{4711, {}, {}, {}}}});
  watch_.note(id_, with_list);
  EXPECT_EQ(look().verdict, Health::degraded) << "it still runs";
  with_list.set(ProcessList{{}, Missing{}});
  watch_.note(id_, with_list);
  EXPECT_EQ(look().verdict, Health::degraded) << "nobody knows whether it still runs";
  with_list.set(ProcessList{{}, std::vector<GpuProcess>{}});
  watch_.note(id_, with_list);
  EXPECT_EQ(look().verdict, Health::healthy);
}

TEST_F(HealthWatchTest, AContainedErrorOfNobodyKnowsWhomIsOverWhenAllThatRanAreGone) {
  look();
  Sample with_list;
  with_list.set(
      ProcessList{{}, std::vector{GpuProcess{4711, {}, {}, {}}, GpuProcess{4712, {}, {}, {}}}});
  watch_.note_contained(id_, with_list);
  fleet_.inject_ecc_error(0);
  EXPECT_EQ(look().verdict, Health::degraded);
  with_list.set(
      ProcessList{{}, std::vector{GpuProcess{4712, {}, {}, {}}, GpuProcess{4713, {}, {}, {}}}});
  watch_.note(id_, with_list);
  EXPECT_EQ(look().verdict, Health::degraded);
  with_list.set(ProcessList{{}, std::vector{GpuProcess{4713, {}, {}, {}}}});
  watch_.note(id_, with_list);
  EXPECT_EQ(look().verdict, Health::healthy);
}

TEST_F(HealthWatchTest, WhoItWasMayBeToldLater) {
  look();
  Sample with_list;
  with_list.set(
      ProcessList{{}, std::vector{GpuProcess{4711, {}, {}, {}}, GpuProcess{4712, {}, {}, {}}}});
  watch_.note_contained(id_, with_list);
  watch_.name_contained(id_, 4711);
  with_list.set(ProcessList{{}, std::vector{GpuProcess{4712, {}, {}, {}}}});
  watch_.note(id_, with_list);
  EXPECT_EQ(look().verdict, Health::healthy);
}

TEST_F(HealthWatchTest, WithoutAListOfProcessesAContainedErrorLastsUntilThereIsOne) {
  look();
  watch_.note_contained(id_, Sample{});
  EXPECT_EQ(look().verdict, Health::degraded);
  Sample with_list;
  with_list.set(ProcessList{{}, std::vector{GpuProcess{4712, {}, {}, {}}}});
  watch_.note(id_, with_list);
  EXPECT_EQ(look().verdict, Health::healthy);
}

TEST_F(HealthWatchTest, AGpuThatFellOffTheBusIsUnhealthyUntilItIsBack) {
  look();
  fleet_.remove_gpu(0);
  EXPECT_EQ(look(), (HealthReport{Health::unhealthy, {"GPU is lost"}}));
  fleet_.replug_gpu(0);
  EXPECT_EQ(look().verdict, Health::healthy);
}

TEST_F(HealthWatchTest, AGpuIsLostAlsoWhileReadingsOfBeforeAreStillThere) {
  DeviceState state;
  state.info.id = id_;
  state.condition = DeviceCondition::unavailable;
  state.sample.set({Metric::temperature_core, 0, {}, Missing{MissingReason::device_lost, "lost"}});
  state.sample.set({Metric::power_limit, 0, {}, std::int64_t{700'000}});
  EXPECT_EQ(judge(state), (HealthReport{Health::unhealthy, {"lost"}}));
}

TEST_F(HealthWatchTest, AGpuThatWeMayNotOpenIsNotKnownToBeBad) {
  DeviceState state;
  state.info.fault = Missing{MissingReason::no_permission, "Insufficient Permissions"};
  state.condition = DeviceCondition::unavailable;
  EXPECT_EQ(judge(state).verdict, std::nullopt);
}

TEST_F(HealthWatchTest, AGpuThatDoesNotAnswerIsNotJudgedByWhatItSaidLast) {
  DeviceState state = device_state(backend_->open(0), backend_->read(id_, kProbes), kProbes, {});
  state.condition = DeviceCondition::unresponsive;
  state.why = "the driver has not answered for 1.0 s";
  EXPECT_EQ(judge(state).verdict, std::nullopt);
  EXPECT_EQ(judge(state).reasons.front(),
            "temperature not known: the driver has not answered for 1.0 s");
}

TEST_F(HealthWatchTest, ErrorsStayNewWhileTheGpuDoesNotAnswer) {
  look();
  fleet_.inject_ecc_error(0);
  look();
  DeviceState state;
  state.info.id = id_;
  state.condition = DeviceCondition::unresponsive;
  EXPECT_EQ(judge(state).verdict, Health::unhealthy);
}

TEST_F(HealthWatchTest, ThresholdsMayBeOfOneGpu) {
  watch_ = HealthWatch({{}, {{"0", {30, 35}}}});
  EXPECT_EQ(look().verdict, Health::unhealthy);
}

}  // namespace
}  // namespace gpuyard
