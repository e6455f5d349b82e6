#include "core/andon/facts.h"

#include <gtest/gtest.h>

#include "core/andon/alert_service_for_tests.h"
#include "core/andon/signals.h"

namespace gpuyard::andon {
namespace {

class FactCollectorTest : public testing::Test {
 protected:
  FactCollectorTest() {
    snapshot_.driver.initialised = true;
    snapshot_.devices.emplace_back().info = gpu_info(0);
  }

  DeviceState& gpu() { return snapshot_.devices[0]; }
  void set(Metric metric, std::int64_t value) { gpu().sample.set({metric, 0, now_, value}); }
  void list(std::initializer_list<ProcessKind> kinds) {
    std::vector<GpuProcess> processes;
    for (const ProcessKind kind : kinds) {
      processes.emplace_back().kind = kind;
    }
    ProcessList list;
    list.taken = now_;
    list.value = std::move(processes);
    gpu().sample.set(std::move(list));
  }
  std::optional<double> signal_value(Signal signal) {
    const Facts facts = book_.collect(snapshot_, {{"GPU-0", lease_}}, now_);
    return facts.gpus.at(0).signals[signal];
  }

  TimePoint now_ = kStart;
  Snapshot snapshot_;
  LeaseFacts lease_;
  FactCollector book_;
};

TEST_F(FactCollectorTest, UnreadMetricYieldsNoSignal) {
  for (const SignalRow& row : signals()) {
    if (row.of_node || row.signal == Signal::lost || row.signal == Signal::missing ||
        row.signal == Signal::unresponsive || row.signal == Signal::unreadable)
      continue;
    EXPECT_EQ(signal_value(row.signal), std::nullopt) << row.name;
  }
}

TEST_F(FactCollectorTest, UsageIsPercentOfTotalOrUnknown) {
  set(Metric::memory_used, 90);
  set(Metric::memory_total, 120);
  set(Metric::power_draw, 330'000);
  set(Metric::power_limit, 300'000);
  EXPECT_EQ(signal_value(Signal::memory_used), 75);
  EXPECT_NEAR(*signal_value(Signal::power_used), 110, 1e-9);
  set(Metric::memory_total, 0);
  EXPECT_EQ(signal_value(Signal::memory_used), std::nullopt);
}

TEST_F(FactCollectorTest, IdleIsExactly0WhileProcessesCompute) {
  RecordProperty("contract", "C8");
  set(Metric::utilization_gpu, 0);
  EXPECT_EQ(signal_value(Signal::idle), std::nullopt);  // no list of its users
  list({});
  EXPECT_EQ(signal_value(Signal::idle), 0);
  list({ProcessKind::compute});
  EXPECT_EQ(signal_value(Signal::idle), 0);
  now_ += std::chrono::seconds(301);
  EXPECT_EQ(signal_value(Signal::idle), 301);
  set(Metric::utilization_gpu, 1);
  EXPECT_EQ(signal_value(Signal::idle), 0);
  set(Metric::utilization_gpu, 0);
  EXPECT_EQ(signal_value(Signal::idle), 0);
  list({ProcessKind::graphics});
  now_ += std::chrono::seconds(10);
  EXPECT_EQ(signal_value(Signal::idle), 0);
}

TEST_F(FactCollectorTest, LeasedGpuWithoutLoadIsReservedIdle) {
  set(Metric::utilization_gpu, 0);
  EXPECT_EQ(signal_value(Signal::reserved_idle), std::nullopt);
  lease_.leased = true;
  EXPECT_EQ(signal_value(Signal::reserved_idle), 0);
  now_ += std::chrono::minutes(30);
  EXPECT_EQ(signal_value(Signal::reserved_idle), 1800);
  lease_.leased = false;
  EXPECT_EQ(signal_value(Signal::reserved_idle), 0);
}

TEST_F(FactCollectorTest, IdleTimeOfALeaseIsNotThatOfTheNext) {
  set(Metric::utilization_gpu, 0);
  lease_.leased = true;
  lease_.lease = "pod-a-1";
  EXPECT_EQ(signal_value(Signal::reserved_idle), 0);
  now_ += std::chrono::minutes(29);
  lease_.lease = "pod-b-2";
  EXPECT_EQ(signal_value(Signal::reserved_idle), 0);
  now_ += std::chrono::minutes(1);
  EXPECT_EQ(signal_value(Signal::reserved_idle), 60);
}

TEST_F(FactCollectorTest, UnknownIntervalPausesIdleTime) {
  set(Metric::utilization_gpu, 0);
  list({ProcessKind::compute});
  lease_.leased = true;
  const auto idle_for = [this](std::optional<double> seconds) {
    EXPECT_EQ(signal_value(Signal::idle), seconds);
    EXPECT_EQ(signal_value(Signal::reserved_idle), seconds);
  };
  const auto later = [this](int seconds) { now_ += std::chrono::seconds(seconds); };
  idle_for(0);
  later(100);
  idle_for(100);
  gpu().condition = DeviceCondition::unresponsive;
  later(1);
  idle_for({});
  gpu().condition = DeviceCondition::responsive;
  later(1000);
  idle_for(100);
  later(10);
  idle_for(110);
  snapshot_.driver.initialised = false;
  idle_for({});
  later(1000);
  snapshot_.driver.initialised = true;
  idle_for(110);
  lease_.leased.reset();
  EXPECT_EQ(signal_value(Signal::reserved_idle), std::nullopt);
  lease_.leased = true;
  EXPECT_EQ(signal_value(Signal::reserved_idle), 110);
}

TEST_F(FactCollectorTest, UnresponsiveGpuYieldsOnlyConditionSignals) {
  set(Metric::temperature_core, 90);
  gpu().condition = DeviceCondition::unresponsive;
  EXPECT_EQ(signal_value(Signal::temperature), std::nullopt);
  EXPECT_EQ(signal_value(Signal::unresponsive), 1);
  EXPECT_EQ(signal_value(Signal::lost), 0);
  now_ += std::chrono::seconds(40);
  EXPECT_EQ(signal_value(Signal::stale), 40);
  gpu().condition = DeviceCondition::unavailable;
  gpu().info.fault = Missing{MissingReason::device_lost, ""};
  EXPECT_EQ(signal_value(Signal::lost), 1);
  EXPECT_EQ(signal_value(Signal::unresponsive), 0);
}

TEST_F(FactCollectorTest, PausedGpuIsNeitherStaleNorHot) {
  set(Metric::temperature_core, 90);
  gpu().runtime_suspend = RuntimeSuspend{.polling_paused = true};
  now_ += std::chrono::hours(8);
  EXPECT_EQ(signal_value(Signal::stale), 0);
  EXPECT_EQ(signal_value(Signal::temperature), std::nullopt);
  EXPECT_EQ(signal_value(Signal::unresponsive), 0);
  EXPECT_EQ(signal_value(Signal::lost), 0);
}

TEST_F(FactCollectorTest, GpuOpenFailureIsUnreadableNotUnresponsive) {
  gpu().condition = DeviceCondition::unavailable;
  gpu().info.fault = Missing{MissingReason::failed, "Unknown Error"};
  gpu().why = "Unknown Error";
  EXPECT_EQ(signal_value(Signal::unreadable), 1);
  EXPECT_EQ(signal_value(Signal::unresponsive), 0);
  EXPECT_EQ(signal_value(Signal::lost), 0);
  gpu().condition = DeviceCondition::unresponsive;
  EXPECT_EQ(signal_value(Signal::unreadable), 0);
  EXPECT_EQ(signal_value(Signal::unresponsive), 1);
}

TEST_F(FactCollectorTest, OneReadingDetectsCorruptedInforom) {
  set(Metric::temperature_core, 40);
  EXPECT_EQ(signal_value(Signal::inforom_corrupted), 0);
  gpu().sample.set(
      {Metric::vbios_version, 0, now_, Missing{MissingReason::failed, "Corrupted infoROM"}});
  EXPECT_EQ(signal_value(Signal::inforom_corrupted), 1);
  EXPECT_EQ(signal_value(Signal::unreadable), 0);
}

TEST_F(FactCollectorTest, CorruptedInforomSetsInforomAndUnreadableSignals) {
  gpu().condition = DeviceCondition::unavailable;
  gpu().info.fault = Missing{MissingReason::failed, "Corrupted infoROM"};
  gpu().why = "Corrupted infoROM";
  EXPECT_EQ(signal_value(Signal::inforom_corrupted), 1);
  EXPECT_EQ(signal_value(Signal::unreadable), 1) << "it cannot be used";
}

TEST_F(FactCollectorTest, DriverDownLeavesGpuSignalsUnknown) {
  set(Metric::temperature_core, 90);
  snapshot_.driver.initialised = false;
  EXPECT_EQ(signal_value(Signal::temperature), std::nullopt);
  EXPECT_EQ(signal_value(Signal::unresponsive), std::nullopt);
  EXPECT_EQ(book_.collect(snapshot_, {}, now_).node[Signal::driver_down], 1);
}

TEST_F(FactCollectorTest, SlowLinkCountsOnlyOnBusyGpu) {
  set(Metric::pcie_width, 8);
  set(Metric::pcie_width_max, 16);
  set(Metric::pcie_generation, 5);
  set(Metric::pcie_generation_max, 5);
  set(Metric::utilization_gpu, 10);
  EXPECT_EQ(signal_value(Signal::pcie_degraded), std::nullopt);
  set(Metric::utilization_gpu, 90);
  EXPECT_EQ(signal_value(Signal::pcie_degraded), 1);
  set(Metric::pcie_width, 16);
  EXPECT_EQ(signal_value(Signal::pcie_degraded), 0);
}

TEST_F(FactCollectorTest, AnUnknownReasonHidesNoHeat) {
  set(Metric::throttle_reasons, INT64_MIN | 0x40);
  EXPECT_EQ(signal_value(Signal::thermal_slowdown), 1);
  set(Metric::throttle_reasons, INT64_MIN);
  EXPECT_EQ(signal_value(Signal::thermal_slowdown), 0);
}

TEST_F(FactCollectorTest, ContradictionRequiresTwoSources) {
  set(Metric::power_draw, 70'000);
  EXPECT_EQ(signal_value(Signal::readings_contradict), std::nullopt);
  set(Metric::energy_total, 1);
  EXPECT_EQ(signal_value(Signal::readings_contradict), 0);
  gpu().contradiction = "they do";
  EXPECT_EQ(signal_value(Signal::readings_contradict), 1);
}

TEST_F(FactCollectorTest, RecoveryOfTheGpuIsNeededOnlyIfKnown) {
  for (const std::int64_t action : {1, 2, 3, 4, 6, 7}) {
    set(Metric::recovery_action, action);
    EXPECT_EQ(signal_value(Signal::recovery_needed), action);
  }
  for (const std::int64_t action : {0, 5}) {
    set(Metric::recovery_action, action);
    EXPECT_EQ(signal_value(Signal::recovery_needed), 0) << action;
  }
  set(Metric::recovery_action, 8);
  EXPECT_EQ(signal_value(Signal::recovery_needed), std::nullopt) << "newer than gpuyard";
  gpu().sample.set({Metric::recovery_action, 0, now_, Missing{MissingReason::not_supported, ""}});
  EXPECT_EQ(signal_value(Signal::recovery_needed), 0) << "an older driver, which has no such field";
  gpu().sample.set({Metric::recovery_action, 0, now_, Missing{MissingReason::failed, ""}});
  EXPECT_EQ(signal_value(Signal::recovery_needed), std::nullopt);
  set(Metric::recovery_action, 1);
  gpu().condition = DeviceCondition::unresponsive;
  EXPECT_EQ(signal_value(Signal::recovery_needed), std::nullopt) << "read before it hung";
}

TEST_F(FactCollectorTest, UnleasedProcessesOfASplitGpuAreUnknown) {
  lease_.unleased_processes = 1;
  EXPECT_EQ(signal_value(Signal::unleased_processes), 1);
  set(Metric::mig_mode, 1);
  EXPECT_EQ(signal_value(Signal::unleased_processes), std::nullopt);
}

TEST_F(FactCollectorTest, PluginHidesOnlyAGpuThatIsHealthyHere) {
  set(Metric::temperature_core, 40);
  set(Metric::memory_total, 80);
  set(Metric::memory_used, 1);
  set(Metric::mig_mode, 0);
  set(Metric::ecc_uncorrected_aggregate, 0);
  EXPECT_EQ(signal_value(Signal::plugin_hides), std::nullopt) << "no report";
  lease_.plugin_hides = true;
  EXPECT_EQ(signal_value(Signal::plugin_hides), std::nullopt) << "its processes are unread";
  list({});
  EXPECT_EQ(signal_value(Signal::plugin_hides), 1);
  lease_.withheld = true;
  EXPECT_EQ(signal_value(Signal::plugin_hides), 0) << "quarantined or cordoned";
  lease_.withheld = false;
  set(Metric::mig_mode, 1);
  EXPECT_EQ(signal_value(Signal::plugin_hides), 0) << "its instances are offered";
  set(Metric::mig_mode, 0);
  gpu().health.verdict = Health::unhealthy;
  EXPECT_EQ(signal_value(Signal::plugin_hides), 0);
  gpu().health.verdict = Health::healthy;
  lease_.plugin_hides = false;
  EXPECT_EQ(signal_value(Signal::plugin_hides), 0);
}

TEST_F(FactCollectorTest, NvlinksDownAfterUpAreCounted) {
  const auto link = [&](std::uint16_t number, std::int64_t up) {
    gpu().sample.set({Metric::nvlink_active, number, {}, up});
  };
  link(0, 0);
  link(1, 1);
  EXPECT_EQ(signal_value(Signal::nvlinks_down), 0) << "link 0 never was up";
  link(1, 0);
  EXPECT_EQ(signal_value(Signal::nvlinks_down), 1) << "all links are down now";
  set(Metric::mig_mode, 1);
  EXPECT_EQ(signal_value(Signal::nvlinks_down), std::nullopt);
  set(Metric::mig_mode, 0);
  link(1, 1);
  EXPECT_EQ(signal_value(Signal::nvlinks_down), 0);
}

TEST_F(FactCollectorTest, ThrottleReasonsAndFans) {
  set(Metric::throttle_reasons, 0x40);
  EXPECT_EQ(signal_value(Signal::thermal_slowdown), 1);
  EXPECT_EQ(signal_value(Signal::power_brake), 0);
  set(Metric::throttle_reasons, 0x80);
  EXPECT_EQ(signal_value(Signal::power_brake), 1);
  set(Metric::temperature_core, 75);
  EXPECT_EQ(signal_value(Signal::fan_stopped), std::nullopt);
  set(Metric::fan_speed, 0);
  EXPECT_EQ(signal_value(Signal::fan_stopped), 1);
  set(Metric::temperature_core, 40);
  EXPECT_EQ(signal_value(Signal::fan_stopped), 0);
  set(Metric::temperature_slowdown, 87);
  EXPECT_EQ(signal_value(Signal::slowdown_margin), 47);
}

TEST_F(FactCollectorTest, AMissingGpuIsNotLost) {
  DeviceState& missing = snapshot_.devices.emplace_back();
  missing.info = gpu_info(1);
  missing.info.former_index = 1;
  missing.info.fault = Missing{MissingReason::device_lost, "the driver does not list it"};
  missing.condition = DeviceCondition::unavailable;
  missing.why = missing.info.fault->detail;
  const Facts facts = book_.collect(snapshot_, {}, now_);
  EXPECT_EQ(facts.node[Signal::gpus], 1);
  EXPECT_EQ(facts.node[Signal::gpus_missing], 1);
  EXPECT_EQ(facts.gpus[0].signals[Signal::missing], 0);
  EXPECT_EQ(facts.gpus[1].signals[Signal::missing], 1);
  EXPECT_EQ(facts.gpus[1].signals[Signal::lost], 0);
  EXPECT_EQ(facts.gpus[1].signals[Signal::unresponsive], 0);
  snapshot_.driver.initialised = false;
  EXPECT_EQ(book_.collect(snapshot_, {}, now_).node[Signal::gpus], std::nullopt);
}

}  // namespace
}  // namespace gpuyard::andon
