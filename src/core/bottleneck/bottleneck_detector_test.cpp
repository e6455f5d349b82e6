// Tests which one cause is named, and how.
#include "core/bottleneck/bottleneck_detector.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace gpuyard::bottleneck {
namespace {

using enum BottleneckCause;
using std::chrono::seconds;

constexpr std::int64_t kGpu = 0x1;  // the flag of an idle GPU
constexpr std::int64_t kPowerCap = 0x4;
constexpr std::int64_t kHwSlowdown = 0x8;
constexpr std::int64_t kSwThermal = 0x20;
constexpr std::int64_t kHwThermal = 0x40;
constexpr std::int64_t kBrake = 0x80;
constexpr std::int64_t kWatt = 1000;
constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;

void set(DeviceState& gpu, Metric metric, std::int64_t value, std::uint16_t index = 0) {
  gpu.sample.set({metric, index, {}, value});
}

// A GPU at work that nothing slows down.
DeviceState healthy() {
  DeviceState gpu;
  gpu.info = {"GPU-0", 0, "GPU-0", "0000:01:00.0", "H100", {}};
  set(gpu, Metric::throttle_reasons, 0);
  set(gpu, Metric::utilization_gpu, 96);
  set(gpu, Metric::power_draw, 600 * kWatt);
  set(gpu, Metric::power_limit, 700 * kWatt);
  set(gpu, Metric::power_limit_max, 700 * kWatt);
  set(gpu, Metric::memory_used, 40 * kGibibyte);
  set(gpu, Metric::memory_total, 80 * kGibibyte);
  set(gpu, Metric::temperature_core, 70);
  set(gpu, Metric::temperature_slowdown, 90);
  set(gpu, Metric::clock_sm, 1590);
  set(gpu, Metric::clock_sm_max, 1980);
  set(gpu, Metric::pcie_generation, 5);
  set(gpu, Metric::pcie_generation_max, 5);
  set(gpu, Metric::pcie_width, 16);
  set(gpu, Metric::pcie_width_max, 16);
  set(gpu, Metric::pcie_rx, 1'000'000'000);
  set(gpu, Metric::gpm_sm, 80'000);
  return gpu;
}

class BottleneckDetectorTest : public ::testing::Test {
 protected:
  // Lets the GPU be like this for `length` intervals, and returns the last verdict.
  Bottleneck after(int length, const DeviceState& gpu) {
    Bottleneck last;
    for (int i = 0; i < length; ++i) {
      now_ += interval_;
      Snapshot snapshot;
      snapshot.interval = interval_;
      snapshot.taken = now_;
      snapshot.devices = {gpu};
      watch_.detect(snapshot, [this](const DeviceState&) { return around_; });
      last = *snapshot.devices.front().bottleneck;
    }
    return last;
  }

  BottleneckDetector watch_;
  ExternalFacts around_{false, 20.0};
  TimePoint now_{seconds(1000)};
  Duration interval_ = seconds(1);
};

TEST_F(BottleneckDetectorTest, HealthyGpuHasNoBottleneck) {
  const Bottleneck found = after(60, healthy());
  EXPECT_EQ(found.cause, none);
  EXPECT_EQ(found.brief, "none");
  EXPECT_TRUE(found.advice.empty());
  EXPECT_TRUE(found.not_known.empty());
}

TEST_F(BottleneckDetectorTest, SuspendedGpuIsReportedAsleep) {
  DeviceState gpu = healthy();
  set(gpu, Metric::throttle_reasons, kHwThermal);
  after(10, gpu);
  gpu.runtime_suspend = RuntimeSuspend{.polling_paused = true, .asleep_since = now_};
  const Bottleneck found = after(120, gpu);
  EXPECT_EQ(found.cause, none);
  EXPECT_EQ(found.brief, "asleep 2m");
  EXPECT_EQ(found.text, "has been asleep for 2m");
}

TEST_F(BottleneckDetectorTest, TenSecondIntervalIsEnoughForAVerdict) {
  interval_ = seconds(10);
  EXPECT_EQ(after(3, healthy()).cause, none);
}

TEST_F(BottleneckDetectorTest, ShortPowerLimitsAllDayAreFine) {
  DeviceState gpu = healthy();
  after(60, gpu);
  for (int minute = 0; minute < 24 * 60; ++minute) {
    set(gpu, Metric::throttle_reasons, kPowerCap);
    ASSERT_EQ(after(5, gpu).cause, none) << minute;
    set(gpu, Metric::throttle_reasons, 0);
    ASSERT_EQ(after(55, gpu).cause, none) << minute;
  }
}

TEST_F(BottleneckDetectorTest, PowerLimitIsReportedWithShareAndAdvice) {
  DeviceState gpu = healthy();
  after(37, gpu);
  set(gpu, Metric::throttle_reasons, kPowerCap);
  const Bottleneck found = after(23, gpu);
  EXPECT_EQ(found.cause, power_cap);
  EXPECT_EQ(found.brief, "power cap 38%");
  EXPECT_EQ(found.share_percent, 38);
  EXPECT_EQ(found.text,
            "is limited by its power limit, 38% of the last minute: then at 1590 of 1980 MHz, not "
            "by heat (at most 70 of 90 C)");
  EXPECT_EQ(found.advice, "The limit is already at its maximum: spread the work over more GPUs.");
  set(gpu, Metric::power_limit, 300 * kWatt);
  EXPECT_EQ(after(1, gpu).advice, "To raise the limit to the maximum: gpuyard power 0 700");
}

TEST_F(BottleneckDetectorTest, ReportedClockCoversOnlyThrottledTime) {
  DeviceState gpu = healthy();
  set(gpu, Metric::clock_sm, 1980);
  after(40, gpu);
  set(gpu, Metric::throttle_reasons, kPowerCap);
  set(gpu, Metric::clock_sm, 1300);
  after(9, gpu);
  set(gpu, Metric::throttle_reasons, 0);
  set(gpu, Metric::clock_sm, 1980);
  EXPECT_EQ(after(11, gpu).text,
            "is limited by its power limit, 15% of the last minute: then at 1300 of 1980 MHz, not "
            "by heat (at most 70 of 90 C)");
}

TEST_F(BottleneckDetectorTest, PowerLimitWithoutClockLossIsIgnored) {
  DeviceState gpu = healthy();
  set(gpu, Metric::throttle_reasons, kPowerCap);
  set(gpu, Metric::clock_sm, 1965);
  EXPECT_EQ(after(60, gpu).cause, none);
}

TEST_F(BottleneckDetectorTest, ShortWindowIsStatedInText) {
  DeviceState gpu = healthy();
  set(gpu, Metric::throttle_reasons, kPowerCap);
  EXPECT_EQ(after(9, gpu).cause, not_known) << "nine samples are too few";
  EXPECT_NE(after(3, gpu).text.find("100% of the last 12 s"), std::string::npos);
}

TEST_F(BottleneckDetectorTest, HeatComesBeforeTheBrakeAndTheLimit) {
  DeviceState gpu = healthy();
  set(gpu, Metric::throttle_reasons, kPowerCap | kBrake | kHwSlowdown);
  EXPECT_EQ(after(20, gpu).cause, power_brake);
  set(gpu, Metric::throttle_reasons, kPowerCap | kBrake | kHwSlowdown | kSwThermal);
  const Bottleneck found = after(20, gpu);
  EXPECT_EQ(found.cause, heat);
  EXPECT_EQ(found.brief, "heat 50%");
  EXPECT_FALSE(found.inferred);
}

TEST_F(BottleneckDetectorTest, ASlowdownWithoutItsReasonIsProbablyHeat) {
  DeviceState gpu = healthy();
  set(gpu, Metric::throttle_reasons, kHwSlowdown);
  const Bottleneck found = after(60, gpu);
  EXPECT_EQ(found.cause, heat);
  EXPECT_TRUE(found.inferred);
  EXPECT_TRUE(found.text.starts_with("is probably throttled by heat, 100%")) << found.text;
}

TEST_F(BottleneckDetectorTest, CountersShowHeatBetweenSamples) {
  DeviceState gpu = healthy();
  Bottleneck found;
  for (std::int64_t i = 0; i < 60; ++i) {
    set(gpu, Metric::throttle_time_hw_thermal, i * 300'000'000);
    found = after(1, gpu);
  }
  EXPECT_EQ(found.cause, heat);
  EXPECT_EQ(found.brief, "heat 30%");
}

TEST_F(BottleneckDetectorTest, LostGpuTextHasDuration) {
  DeviceState gpu = healthy();
  after(20, gpu);
  gpu.condition = DeviceCondition::unavailable;
  gpu.why = "GPU is lost";
  gpu.sample = missing_sample(ProbeSet::all(), {MissingReason::device_lost, "GPU is lost"}, now_);
  const Bottleneck found = after(13, gpu);
  EXPECT_EQ(found.cause, lost);
  EXPECT_EQ(found.brief, "lost 12s");
  EXPECT_EQ(after(20, healthy()).cause, none) << "the readings from before count no more";
}

TEST_F(BottleneckDetectorTest, AGpuThatDoesNotAnswerIsStale) {
  DeviceState gpu = healthy();
  gpu.condition = DeviceCondition::unresponsive;
  gpu.why = "a driver call is overdue";
  EXPECT_EQ(after(121, gpu).brief, "not responding 2m");
  EXPECT_EQ(after(1, gpu).cause, stale);
}

TEST_F(BottleneckDetectorTest, ANarrowLinkCountsOnlyUnderLoad) {
  DeviceState gpu = healthy();
  set(gpu, Metric::pcie_width, 8);
  set(gpu, Metric::pcie_generation, 3);
  EXPECT_EQ(after(60, gpu).text, "runs with only 8 of 16 PCIe lanes, PCIe generation 3 of 5");
  set(gpu, Metric::utilization_gpu, 0);
  EXPECT_EQ(after(1, gpu).cause, none) << "it rests, and lowers its link";
  EXPECT_EQ(after(60, gpu).cause, none);
}

TEST_F(BottleneckDetectorTest, NvlinkDownAfterUpIsReported) {
  DeviceState gpu = healthy();
  for (std::uint16_t link = 0; link < 18; ++link) set(gpu, Metric::nvlink_active, 1, link);
  EXPECT_EQ(after(60, gpu).cause, none);
  set(gpu, Metric::nvlink_active, 0, 3);
  EXPECT_EQ(after(1, gpu).text, "has only 17 of 18 NVLinks: 3 was up until 0s ago");
  EXPECT_EQ(after(1, gpu).brief, "NVLink down");
  for (std::uint16_t link = 0; link < 18; ++link) set(gpu, Metric::nvlink_active, 0, link);
  set(gpu, Metric::utilization_gpu, 0);
  const Bottleneck found = after(10, gpu);
  EXPECT_EQ(found.text, "has only 0 of 18 NVLinks: 0-17 were up until 11s ago");
  EXPECT_EQ(found.cause, narrow_link) << "the GPU waits for its links, at no load";
  for (std::uint16_t link = 0; link < 18; ++link) set(gpu, Metric::nvlink_active, 1, link);
  EXPECT_EQ(after(1, gpu).cause, none);
}

// A board without an NVLink bridge has links that never come up.
TEST_F(BottleneckDetectorTest, NvlinksNeverUpAreIgnored) {
  DeviceState gpu = healthy();
  for (std::uint16_t link = 0; link < 18; ++link) set(gpu, Metric::nvlink_active, 0, link);
  EXPECT_EQ(after(60, gpu).cause, none);
}

TEST_F(BottleneckDetectorTest, NvlinkNeverUpIsNamedUnderLoad) {
  DeviceState gpu = healthy();
  for (std::uint16_t link = 0; link < 18; ++link) {
    set(gpu, Metric::nvlink_active, link == 3 ? 0 : 1, link);
  }
  EXPECT_EQ(after(60, gpu).text, "runs with only 17 of 18 NVLinks");
  set(gpu, Metric::utilization_gpu, 0);
  EXPECT_EQ(after(1, gpu).cause, none);
}

TEST_F(BottleneckDetectorTest, SaturatedCpuCoreSuggestsStarvedGpu) {
  DeviceState gpu = healthy();
  set(gpu, Metric::utilization_gpu, 25);
  around_.cpu_percent = 99.6;
  const Bottleneck found = after(60, gpu);
  EXPECT_EQ(found.cause, starved);
  EXPECT_EQ(found.brief, "starved: CPU 1.0");
  EXPECT_TRUE(found.inferred);
  EXPECT_EQ(found.text.find("is probably waiting"), 0U);
  around_.cpu_percent = 30;
  EXPECT_EQ(after(60, gpu).cause, none);
}

TEST_F(BottleneckDetectorTest, AFullLinkStarvesAGpu) {
  DeviceState gpu = healthy();
  set(gpu, Metric::utilization_gpu, 25);
  set(gpu, Metric::pcie_rx, 52'000'000'000);  // of 63
  EXPECT_EQ(after(60, gpu).brief, "starved: PCIe");
}

TEST_F(BottleneckDetectorTest, UnknownCpuUseIsStatedInText) {
  DeviceState gpu = healthy();
  set(gpu, Metric::utilization_gpu, 25);
  around_.cpu_percent.reset();
  const Bottleneck found = after(60, gpu);
  EXPECT_EQ(found.cause, none);
  ASSERT_EQ(found.not_known.size(), 1U);
  EXPECT_EQ(found.not_known[0], "starved: CPU use of its processes unknown");
}

TEST_F(BottleneckDetectorTest, MissingPcieTrafficIsUnknownNotZero) {
  DeviceState gpu = healthy();
  set(gpu, Metric::utilization_gpu, 25);
  gpu.sample.set({Metric::pcie_rx, 0, {}, Missing{MissingReason::not_supported, ""}});
  const Bottleneck found = after(60, gpu);
  EXPECT_EQ(found.cause, none);
  ASSERT_EQ(found.not_known.size(), 1U);
  EXPECT_EQ(found.not_known[0], "starved: PCIe: not supported by this GPU or driver");
}

TEST_F(BottleneckDetectorTest, BusyAtLowPowerSuggestsWaiting) {
  DeviceState gpu = healthy();
  set(gpu, Metric::utilization_gpu, 100);
  set(gpu, Metric::power_draw, 119 * kWatt);
  set(gpu, Metric::gpm_sm, 3'000);
  EXPECT_EQ(after(15, gpu).cause, none);
  const Bottleneck found = after(20, gpu);
  EXPECT_EQ(found.cause, waiting);
  EXPECT_EQ(found.brief, "busy at 17% W: waits");
  EXPECT_TRUE(found.inferred);
  set(gpu, Metric::gpm_sm, 60'000);
  EXPECT_EQ(after(60, gpu).cause, none) << "its SMs are active";
}

TEST_F(BottleneckDetectorTest, WaitingIsDetectedWithoutGpm) {
  DeviceState gpu = healthy();
  set(gpu, Metric::utilization_gpu, 100);
  set(gpu, Metric::power_draw, 119 * kWatt);
  gpu.sample.set({Metric::gpm_sm, 0, {}, Missing{MissingReason::not_supported, ""}});
  const Bottleneck found = after(60, gpu);
  EXPECT_EQ(found.cause, waiting);
  ASSERT_EQ(found.not_known.size(), 1U);
  EXPECT_EQ(found.not_known[0], "SMs active: not supported by this GPU or driver");
}

TEST_F(BottleneckDetectorTest, LeasedIdleTimeStartsWithLease) {
  DeviceState gpu = healthy();
  set(gpu, Metric::utilization_gpu, 0);
  set(gpu, Metric::throttle_reasons, kGpu);
  EXPECT_EQ(after(3600, gpu).cause, none);
  around_.leased = true;
  EXPECT_EQ(after(60, gpu).cause, none) << "what it idled before is not the holder's";
  EXPECT_EQ(after(26 * 60, gpu).brief, "leased, idle 26m");
  set(gpu, Metric::utilization_gpu, 3);
  EXPECT_EQ(after(1, gpu).cause, none);
}

TEST_F(BottleneckDetectorTest, AFullMemoryIsNamedLast) {
  DeviceState gpu = healthy();
  set(gpu, Metric::memory_used, 79 * kGibibyte);
  EXPECT_EQ(after(60, gpu).brief, "memory 99% full");
  set(gpu, Metric::throttle_reasons, kHwThermal);
  EXPECT_EQ(after(60, gpu).cause, heat);
}

TEST_F(BottleneckDetectorTest, MissingThrottleReasonsYieldUnknown) {
  DeviceState gpu = healthy();
  gpu.sample.set({Metric::throttle_reasons, 0, {}, Missing{MissingReason::not_supported, ""}});
  const Bottleneck found = after(60, gpu);
  EXPECT_EQ(found.cause, not_known);
  EXPECT_EQ(found.text, "could not be assessed (heat: not supported by this GPU or driver)");
  EXPECT_EQ(found.not_known.size(), 3U);
}

TEST_F(BottleneckDetectorTest, SamplesAreLimitedToWindow) {
  DeviceState gpu = healthy();
  set(gpu, Metric::throttle_reasons, kPowerCap);
  after(600, gpu);
  set(gpu, Metric::throttle_reasons, 0);
  EXPECT_EQ(after(30, gpu).share_percent, 50);
  EXPECT_EQ(after(30, gpu).cause, none);
}

// A cause, and what makes it.
struct Scenario {
  BottleneckCause cause;
  void (*make)(DeviceState&, ExternalFacts&);
};

const std::vector<Scenario> kScenarios = {
    {heat,
     [](DeviceState& gpu, ExternalFacts&) { set(gpu, Metric::throttle_reasons, kHwThermal); }},
    {power_brake,
     [](DeviceState& gpu, ExternalFacts&) { set(gpu, Metric::throttle_reasons, kBrake); }},
    {power_cap,
     [](DeviceState& gpu, ExternalFacts&) { set(gpu, Metric::throttle_reasons, kPowerCap); }},
    {narrow_link, [](DeviceState& gpu, ExternalFacts&) { set(gpu, Metric::pcie_width, 4); }},
    {starved,
     [](DeviceState& gpu, ExternalFacts& around) {
       set(gpu, Metric::utilization_gpu, 20);
       around.cpu_percent = 100;
     }},
    {waiting,
     [](DeviceState& gpu, ExternalFacts&) {
       set(gpu, Metric::utilization_gpu, 100);
       set(gpu, Metric::power_draw, 100 * kWatt);
       set(gpu, Metric::gpm_sm, 1'000);
     }},
    {leased_idle,
     [](DeviceState& gpu, ExternalFacts& around) {
       set(gpu, Metric::utilization_gpu, 0);
       around.leased = true;
     }},
    {memory_full,
     [](DeviceState& gpu, ExternalFacts&) { set(gpu, Metric::memory_used, 80 * kGibibyte); }},
};

// A mixture of two causes is named after one of the two, in a line that fits.
class MixtureTest : public BottleneckDetectorTest {
 protected:
  void expect_one_of(const Bottleneck& found, std::size_t one, std::size_t other) {
    EXPECT_TRUE(found.cause == kScenarios[one].cause || found.cause == kScenarios[other].cause)
        << one << " with " << other << " is " << found.brief;
    EXPECT_FALSE(found.brief.empty());
    EXPECT_FALSE(found.advice.empty());
    EXPECT_LE(found.brief.size(), kMaxBriefWidth);
  }
  DeviceState with(std::initializer_list<std::size_t> causes) {
    DeviceState gpu = healthy();
    around_ = {false, 20.0};
    for (const std::size_t cause : causes) kScenarios[cause].make(gpu, around_);
    return gpu;
  }
};

TEST_F(MixtureTest, EachPairOfCausesNamesOne) {
  for (std::size_t one = 0; one < kScenarios.size(); ++one) {
    for (std::size_t other = 0; other < kScenarios.size(); ++other) {
      expect_one_of(after(120, with({one, other})), one, other);
    }
  }
}

// One lasts, the other comes and goes: in 200 mixtures by chance.
TEST_F(MixtureTest, LastingAndIntermittentCausesYieldEitherCause) {
  const auto needs_its_use = [](std::size_t cause) { return cause >= 3 && cause <= 6; };
  std::mt19937 chance(20261124);  // NOLINT: the same mixtures in each run
  std::uniform_int_distribution<std::size_t> which(0, kScenarios.size() - 1);
  std::uniform_real_distribution<double> share(0.2, 1);
  for (int mixture = 0; mixture < 200;) {
    const std::size_t lasts = which(chance);
    const std::size_t comes = which(chance);
    if (needs_its_use(lasts) && needs_its_use(comes)) continue;  // one ends the other
    ++mixture;
    std::bernoulli_distribution there(share(chance));
    Bottleneck found;
    for (int second = 0; second < 130; ++second) {
      found = after(1, there(chance) ? with({comes, lasts}) : with({lasts}));
    }
    expect_one_of(found, lasts, comes);
  }
}

}  // namespace
}  // namespace gpuyard::bottleneck
