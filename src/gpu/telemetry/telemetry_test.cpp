#include "gpu/telemetry/telemetry.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "gpu/device/error.h"
#include "gpu/device/xid.h"
#include "gpu/telemetry/telemetry_for_tests.h"

namespace gpuyard::telemetry {
namespace {

using std::chrono::milliseconds;

TEST_F(TelemetryTest, InitialSnapshotIsUninitialisedAndEmpty) {
  EXPECT_EQ(latest().generation, 0U);
  EXPECT_FALSE(latest().driver.initialised);
  EXPECT_TRUE(latest().devices.empty());
}

TEST_F(TelemetryTest, FirstSnapshotIsPublishedAfterLastReply) {
  start(2);
  EXPECT_EQ(latest().generation, 1U);
  ASSERT_EQ(latest().devices.size(), 2U);
  EXPECT_EQ(*latest().devices[1].sample.number(Metric::power_draw), 42);
  EXPECT_EQ(*latest().devices[1].sample.number(Metric::power_limit), 42);
}

TEST_F(TelemetryTest, TheFleetFoundIsLogged) {
  RecordProperty("contract", "E9");
  start(2);
  EXPECT_EQ(log_.lines().front(), "INFO NVML initialized successfully. Found 2 GPU(s)");
}

TEST_F(TelemetryTest, MissingDriverIsLoggedOnceAndInSnapshot) {
  RecordProperty("contract", "E9 E6");
  telemetry_.on_no_driver(init_error("NVML Shared Library Not Found"));
  telemetry_.on_no_driver(init_error("NVML Shared Library Not Found"));
  EXPECT_EQ(log_.lines(), std::vector<std::string>{
                              "WARNING NVML initialization failed: NVML Shared Library Not Found. "
                              "GPU features disabled."});
  EXPECT_FALSE(latest().driver.initialised);
  EXPECT_EQ(latest().driver.why, "NVML Shared Library Not Found");
  EXPECT_TRUE(latest().devices.empty());
}

TEST_F(TelemetryTest, EverySecondPublishesSnapshotWithNewReadings) {
  start(1);
  value_ = 43;
  pass(kFastInterval);
  EXPECT_EQ(latest().generation, 2U);
  EXPECT_EQ(*latest().devices[0].sample.number(Metric::power_draw), 43);
}

TEST_F(TelemetryTest, TheSlowTierIsReadEveryFiveSeconds) {
  start(1);
  value_ = 43;
  pass(kSlowInterval - milliseconds(500));
  EXPECT_EQ(*latest().devices[0].sample.number(Metric::power_limit), 42);
  pass(std::chrono::seconds(1));
  EXPECT_EQ(*latest().devices[0].sample.number(Metric::power_limit), 43);
}

TEST_F(TelemetryTest, StuckGpuDoesNotDelaySnapshot) {
  start(8);
  stuck_ = "GPU-3";
  value_ = 43;
  pass(std::chrono::seconds(2) + kPublishTimeout);
  EXPECT_EQ(latest().generation, 3U);
  for (const DeviceState& device : latest().devices) {
    const bool stuck = device.info.id == stuck_;
    EXPECT_EQ(*device.sample.number(Metric::power_draw), stuck ? 42 : 43) << device.info.id;
    EXPECT_EQ(device.condition,
              stuck ? DeviceCondition::unresponsive : DeviceCondition::responsive);
  }
}

TEST_F(TelemetryTest, StuckGpuIsQueriedOnceAndRecovers) {
  start(2);
  stuck_ = "GPU-1";
  pass(std::chrono::seconds(5));
  EXPECT_EQ(pending_requests_.size(), 1U)
      << "more than one question out to a GPU that does not respond";
  stuck_.clear();
  pass(std::chrono::seconds(2));
  EXPECT_EQ(latest().devices[1].condition, DeviceCondition::responsive);
}

TEST_F(TelemetryTest, LostGpuIsUnavailableAndLoggedOnce) {
  RecordProperty("contract", "E6 E9 A13");
  start(2);
  lost_ = "GPU-0";
  pass(std::chrono::seconds(7));
  EXPECT_EQ(latest().devices[0].condition, DeviceCondition::unavailable);
  EXPECT_EQ(latest().devices[1].condition, DeviceCondition::responsive);
  EXPECT_EQ(std::count(log_.lines().begin(), log_.lines().end(),
                       "ERROR Error querying GPU device 0: GPU is lost"),
            1);
}

TEST_F(TelemetryTest, HealthFollowsReadingsAfterUnknownStart) {
  RecordProperty("contract", "A10");
  telemetry_.on_inventory(fleet_of(1));
  loop_.advance(kPublishTimeout);
  EXPECT_EQ(latest().devices[0].health.verdict, std::nullopt);
  answer();
  pass(std::chrono::seconds(1));
  EXPECT_EQ(latest().devices[0].health.verdict, Health::healthy);
  value_ = 80;  // for every row: 80 C, and 38 new errors
  pass(std::chrono::seconds(1));
  EXPECT_EQ(latest().devices[0].health,
            (HealthReport{Health::degraded, {"temperature 80 C is above 75 C"}}));
  pass(std::chrono::seconds(5));
  EXPECT_EQ(latest().devices[0].health.verdict, Health::unhealthy);
  EXPECT_EQ(latest().devices[0].health.reasons.back(), "38 new uncorrectable ECC errors");
}

TEST_F(TelemetryTest, LostGpuIsUnhealthyHostDownIsUnknown) {
  RecordProperty("contract", "A10");
  start(2);
  lost_ = "GPU-0";
  pass(std::chrono::seconds(2));
  EXPECT_EQ(latest().devices[0].health, (HealthReport{Health::unhealthy, {"GPU is lost"}}));
  EXPECT_EQ(latest().devices[1].health.verdict, Health::healthy);
  telemetry_.on_host_down("the driver-host exited");
  EXPECT_EQ(latest().devices[1].health.verdict, std::nullopt);
  EXPECT_EQ(latest().devices[1].health.reasons.front(),
            "temperature unknown: the driver-host exited");
}

TEST_F(TelemetryTest, AStuckGpuIsLoggedOnceAndCounted) {
  RecordProperty("contract", "E9");
  start(1);
  stuck_ = "GPU-0";
  pass(std::chrono::seconds(10));
  EXPECT_EQ(std::count(log_.lines().begin(), log_.lines().end(),
                       "ERROR Error querying GPU device 0: the driver did not respond in time"),
            1);
  EXPECT_GT(latest().devices[0].query_errors, 5U);
}

TEST_F(TelemetryTest, LateOpenedGpuJoinsWithoutDisturbingOthers) {
  Inventory fleet = fleet_of(2);
  fleet.devices[1] = {"index:1", 1, "", "", "", Missing{MissingReason::timed_out, "not opened"}};
  telemetry_.on_inventory(fleet);
  answer();
  EXPECT_EQ(latest().devices[1].condition, DeviceCondition::unavailable);
  stuck_ = "GPU-0";  // so that its readings stay as they were
  telemetry_.on_inventory(fleet_of(2));
  answer();
  loop_.advance(kPublishTimeout);
  EXPECT_EQ(*latest().devices[0].sample.number(Metric::power_draw), 42);
  EXPECT_EQ(latest().devices[1].info.id, "GPU-1");
  EXPECT_EQ(latest().devices[1].condition, DeviceCondition::responsive);
}

TEST_F(TelemetryTest, HostRestartReadsSlowTierAtOnce) {
  start(1);
  pass(kFastInterval);
  telemetry_.on_host_down("driver-host exited");
  value_ = 43;
  start(1);
  EXPECT_EQ(*latest().devices[0].sample.number(Metric::power_limit), 43);
}

TEST_F(TelemetryTest, LostGpuIsUnavailableAtNextTickDeadline) {
  start(1);
  lost_ = "GPU-0";
  pass(kFastInterval + kPublishTimeout);
  EXPECT_EQ(latest().devices[0].condition, DeviceCondition::unavailable);
}

TEST_F(TelemetryTest, HostDownKeepsReadingsAsUnresponsive) {
  start(1);
  telemetry_.on_host_down("driver-host exited");
  ASSERT_EQ(latest().devices.size(), 1U);
  EXPECT_EQ(latest().devices[0].condition, DeviceCondition::unresponsive);
  EXPECT_EQ(*latest().devices[0].sample.number(Metric::power_draw), 42);
  EXPECT_FALSE(latest().driver.initialised);
  start(1);
  EXPECT_EQ(latest().devices[0].condition, DeviceCondition::responsive);
  EXPECT_TRUE(latest().driver.initialised);
}

TEST_F(TelemetryTest, RepeatedHostDownReasonIsLoggedOnce) {
  start(1);
  for (int i = 0; i < 3; ++i) telemetry_.on_host_down("driver-host exited");
  EXPECT_EQ(std::count(log_.lines().begin(), log_.lines().end(), "WARNING driver-host exited"), 1);
}

TEST_F(TelemetryTest, HostDownContinuesSnapshotsWithAgingReadings) {
  start(1);
  telemetry_.on_host_down("driver-host exited");
  accepting_ = false;
  const auto before = latest();
  pass(std::chrono::seconds(40));
  EXPECT_GT(latest().generation, before.generation);
  const Reading& power = *latest().devices[0].sample.find(Metric::power_draw);
  EXPECT_GE(latest().taken - power.taken, std::chrono::seconds(39));
}

TEST_F(TelemetryTest, RefusedReadIsRetriedAtNextTick) {
  accepting_ = false;
  start(1);
  EXPECT_TRUE(pending_requests_.empty());
  accepting_ = true;
  pass(std::chrono::seconds(2));
  EXPECT_NE(latest().devices[0].sample.number(Metric::power_draw), nullptr);
}

DeviceEvent xid_event(const DeviceId& device, std::uint32_t xid, TimePoint at) {
  return {device, EventKind::xid, EventSource::driver, at, xid, {}, ""};
}

TEST_F(TelemetryTest, XidsAreCountedForEachGpu) {
  start(2);
  pass(std::chrono::seconds(2));
  telemetry_.on_event(xid_event("GPU-1", 79, loop_.now() - milliseconds(500)));
  telemetry_.on_event(xid_event("GPU-1", 79, loop_.now()));
  telemetry_.on_event(xid_event("", 13, loop_.now()));
  const WallTime seen = loop_.wall();
  pass(kFastInterval);
  EXPECT_EQ(latest().devices[0].xid_errors, std::vector<XidCount>{});
  EXPECT_EQ(latest().devices[1].xid_errors, (std::vector<XidCount>{{79, 2, seen}}));
}

TEST_F(TelemetryTest, XidCountsContinueAfterDriverReturn) {
  start(1);
  telemetry_.on_event(xid_event("GPU-0", 13, loop_.now()));
  telemetry_.on_host_down("driver-host exited; starting another");
  telemetry_.on_event(xid_event("GPU-0", 13, loop_.now()));  // the kernel's log goes on
  start(1);
  const auto& counts = latest().devices[0].xid_errors;
  ASSERT_TRUE(counts && counts->size() == 1);
  EXPECT_EQ(counts->front().count, 2U);
}

TEST_F(TelemetryTest, ContainedErrorDegradesUntilProcessExits) {
  RecordProperty("contract", "A10");
  const auto process_list = [&](std::vector<GpuProcess> processes) {
    Sample with_list;
    with_list.set(ProcessList{loop_.now(), std::move(processes)});
    return with_list;
  };
  start(1);
  EXPECT_EQ(latest().devices[0].health.verdict, Health::healthy);
  DeviceEvent contained = xid_event("GPU-0", kXidContained, loop_.now());
  telemetry_.on_event(contained);
  contained.pid = 4711;
  telemetry_.on_duplicate_event(contained);
  pass(kFastInterval);
  EXPECT_EQ(latest().devices[0].health.verdict, Health::degraded);
  processes_ = process_list({GpuProcess{4711, {}, {}, {}}});
  pass(kSlowInterval);
  EXPECT_EQ(latest().devices[0].health.verdict, Health::degraded);
  processes_ = process_list({});
  pass(kSlowInterval + kFastInterval);
  EXPECT_EQ(latest().devices[0].health.verdict, Health::healthy);
}

TEST_F(TelemetryTest, MissingBoardIsUnhealthyUntilRemoved) {
  RecordProperty("contract", "A10");
  start(2);
  telemetry_.on_host_down("driver-host exited; starting another");
  start(1);
  ASSERT_EQ(latest().devices.size(), 2U);
  const DeviceState& gone = latest().devices[1];
  EXPECT_EQ(gone.info.uuid, "GPU-1");
  EXPECT_EQ(gone.condition, DeviceCondition::unavailable);
  EXPECT_TRUE(gone.why.starts_with("not present since ")) << gone.why;
  EXPECT_EQ(gone.health, (HealthReport{Health::unhealthy, {gone.why}}));
  EXPECT_TRUE(std::ranges::none_of(pending_requests_,
                                   [](const auto& one) { return one.device == "GPU-1"; }));
  EXPECT_TRUE(is_missing(gone.info));
  loop_.advance(std::chrono::hours(25));
  answer();
  EXPECT_EQ(latest().devices.size(), 2U);
  EXPECT_TRUE(telemetry_.remove_board("GPU-1"));
  pass(2 * kFastInterval);
  EXPECT_EQ(latest().devices.size(), 1U);
}

KnownBoard board(std::uint32_t index, EccState errors) {
  const std::string id = "GPU-" + std::to_string(index);
  KnownBoard known{id, index, "", "H100"};
  known.boot_id = "boot";
  known.errors = std::move(errors);
  return known;
}

EccState errors(std::int64_t base, std::int64_t total) {
  return {Metric::ecc_uncorrected_aggregate, base, total, total};
}

TEST_F(TelemetryTest, ErrorsBeforeRestartAreNewInFirstVerdict) {
  RecordProperty("contract", "A9 A10");
  telemetry_.restore({board(0, errors(40, value_)), board(1, errors(value_, value_))}, "boot");
  start(2);
  EXPECT_EQ(latest().devices[0].health,
            (HealthReport{Health::unhealthy, {"2 new uncorrectable ECC errors"}}));
  EXPECT_EQ(latest().devices[1].health.verdict, Health::healthy);
  telemetry_.acknowledge_errors("GPU-0");
  pass(2 * kFastInterval);
  EXPECT_EQ(latest().devices[0].health.verdict, Health::healthy);
  EXPECT_EQ(telemetry_.known_boards()[0].errors.base, value_);
}

TEST_F(TelemetryTest, ErrorsBeforeARebootAreKnown) {
  value_ = 0;
  telemetry_.restore({board(0, errors(0, 0)), board(1, errors(-2, 0))}, "another boot");
  start(2);
  EXPECT_EQ(latest().devices[0].health.verdict, Health::healthy);
  EXPECT_EQ(latest().devices[1].health.verdict, Health::healthy);
}

TEST_F(LaptopTest, IdleGpuFallsAsleepAndStays) {
  pass(std::chrono::seconds(15));
  ASSERT_TRUE(is_asleep());
  const int before = queries_;
  pass(std::chrono::minutes(10));
  EXPECT_TRUE(is_asleep());
  EXPECT_EQ(queries_, before);
}

TEST_F(LaptopTest, SleepingGpusArePublishedLessOften) {
  pass(std::chrono::seconds(15));
  const auto before = latest().generation;
  pass(std::chrono::seconds(40));
  EXPECT_EQ(latest().generation, before + 10);
  EXPECT_EQ(latest().interval, kAsleepInterval);
  EXPECT_EQ(latest().devices[0].condition, DeviceCondition::responsive);
  EXPECT_EQ(*latest().devices[0].sample.number(Metric::utilization_gpu), 0) << "its last reading";
}

TEST_F(LaptopTest, ComputingGpuIsPolledEverySecond) {
  value_ = 42;
  pass(std::chrono::seconds(60));
  EXPECT_FALSE(is_asleep());
  EXPECT_GE(queries_, 60);
}

// Whatever gap it ends, the first snapshot after a sleep counts as the next one.
TEST_F(LaptopTest, StepFromSleepIsUninterrupted) {
  for (int ticks = 0; ticks < 5; ++ticks) {
    needed_ = false;
    pass(std::chrono::seconds(15) + ticks * kFastInterval);
    ASSERT_TRUE(is_asleep());
    const TimePoint last = latest().taken;
    needed_ = true;
    pass(kFastInterval);
    EXPECT_GT(latest().taken, last);
    EXPECT_LT(latest().taken - last, max_step(latest()));
  }
}

TEST_F(LaptopTest, ResumedGpuIsPolledWithinOneInterval) {
  pass(std::chrono::seconds(15));
  ASSERT_TRUE(is_asleep());
  const int before = queries_;
  queried_at_ = loop_.now();
  value_ = 42;
  pass(kFastInterval);
  EXPECT_GT(queries_, before);
  EXPECT_EQ(*latest().devices[0].sample.number(Metric::utilization_gpu), 42);
  EXPECT_FALSE(is_asleep());
}

TEST_F(LaptopTest, FreshReadWakesTheGpu) {
  pass(std::chrono::seconds(15));
  ASSERT_TRUE(is_asleep());
  bool done = false;
  telemetry_.read_fresh({Probe::power}, [&](const SnapshotPtr& read) {
    done = true;
    EXPECT_NE(read->devices[0].sample.number(Metric::power_draw), nullptr);
  });
  pass(milliseconds(20));
  EXPECT_TRUE(done);
}

TEST_F(LaptopTest, SlowResumeIsNotUnresponsive) {
  pass(std::chrono::seconds(15));
  ASSERT_TRUE(is_asleep());
  stuck_ = "GPU-0";
  telemetry_.read_fresh({Probe::power}, [](const SnapshotPtr&) {});
  pass(kWakeTimeout - kFastInterval);
  EXPECT_EQ(latest().devices[0].condition, DeviceCondition::responsive);
  pass(2 * kFastInterval);
  EXPECT_EQ(latest().devices[0].condition, DeviceCondition::unresponsive);
}

TEST_F(LaptopTest, LostGpuIsPolled) {
  lost_ = "GPU-0";
  pass(std::chrono::seconds(30));
  EXPECT_FALSE(is_asleep());
  EXPECT_TRUE(is_lost(latest().devices[0]));
}

TEST_F(TelemetryTest, IntervalSetsTheTimeBetweenSnapshots) {
  telemetry_.set_interval(std::chrono::seconds(10));
  start(1);
  const auto before = latest().generation;
  pass(std::chrono::seconds(60));
  EXPECT_EQ(latest().generation, before + 6);
  EXPECT_EQ(max_step(latest()), std::chrono::seconds(14));
}

}  // namespace
}  // namespace gpuyard::telemetry
