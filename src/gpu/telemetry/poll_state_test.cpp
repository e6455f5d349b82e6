#include "gpu/telemetry/poll_state.h"

#include <gtest/gtest.h>

#include "gpu/device/catalog.h"
#include "gpu/telemetry/telemetry_for_tests.h"

namespace gpuyard::telemetry {
namespace {

Sample power(std::int64_t milliwatts, TimePoint taken = kNow) {
  Sample sample;
  sample.set({Metric::power_draw, 0, taken, milliwatts});
  return sample;
}

TEST(PollState, NextIsEmptyWithoutDueProbes) {
  EXPECT_TRUE(PollState(kGpu).next_probes().empty());
}

TEST(PollState, FastTierIsQueriedTogetherBeforeSlow) {
  PollState track(kGpu);
  track.make_due(probes_of(Tier::fast) | probes_of(Tier::slow));
  EXPECT_EQ(track.next_probes(), probes_of(Tier::fast));
}

TEST(PollState, TheSlowTierGoesOneCallAtATime) {
  PollState track(kGpu);
  track.make_due(probes_of(Tier::slow) | ProbeSet{Probe::power_limit});
  int calls = 0;
  track.next_probes().each([&](Probe) { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(PollState, UrgentProbesGoFirst) {
  PollState track(kGpu);
  track.make_due(probes_of(Tier::fast));
  track.make_urgent({Probe::memory});
  EXPECT_EQ(track.next_probes(), ProbeSet{Probe::memory});
}

TEST(PollState, AtMostOneQueryIsPending) {
  PollState track(kGpu);
  track.make_due({Probe::power});
  track.begin_query(1, track.next_probes(), kNow);
  track.make_due({Probe::memory});
  EXPECT_TRUE(track.next_probes().empty());
  EXPECT_TRUE(track.finish_query(1, power(5), kNow));
  EXPECT_EQ(track.next_probes(), ProbeSet{Probe::memory});
}

TEST(PollState, ReplyToOtherQueryIsDropped) {
  PollState track(kGpu);
  track.begin_query(2, {Probe::power}, kNow);
  EXPECT_FALSE(track.finish_query(1, power(5), kNow));
  EXPECT_EQ(track.sample().number(Metric::power_draw), nullptr);
}

TEST(PollState, OverdueReplyIsUnresponsiveUntilAnswered) {
  PollState track(kGpu);
  track.begin_query(1, {Probe::power}, kNow);
  EXPECT_FALSE(track.is_unresponsive(kNow + kUnresponsiveTimeout - Duration(1)));
  EXPECT_EQ(track.state(kNow + kUnresponsiveTimeout).condition, DeviceCondition::unresponsive);
  track.finish_query(1, power(5), kNow);
  EXPECT_EQ(track.state(kNow + kUnresponsiveTimeout).condition, DeviceCondition::responsive);
}

Sample failed(TimePoint taken) {
  return missing_sample(probes_of(Tier::fast), {MissingReason::failed, "Unknown Error"}, taken);
}

TEST(PollState, ThirtySecondsWithoutReadingIsUnavailable) {
  PollState track(kGpu);
  track.begin_query(1, {Probe::power}, kNow);
  track.finish_query(1, power(5), kNow);
  for (std::uint64_t second = 1; second <= 30; ++second) {
    const TimePoint now = kNow + std::chrono::seconds(second);
    track.begin_query(second + 1, probes_of(Tier::fast), now);
    track.finish_query(second + 1, failed(now), now);
    const bool sick = second == 30;
    EXPECT_EQ(track.state(now).condition == DeviceCondition::unavailable, sick) << second;
  }
  const DeviceState state = track.state(kNow + std::chrono::seconds(30));
  EXPECT_EQ(state.why, "all of its readings fail: Unknown Error");
  EXPECT_EQ(state.vitals_at, kNow);
}

TEST(PollState, OneReadableValueKeepsAGpuAvailable) {
  PollState track(kGpu);
  track.begin_query(1, probes_of(Tier::fast), kNow);
  Sample sample = failed(kNow);
  sample.set({Metric::clock_sm, 0, kNow, 1980});
  track.finish_query(1, sample, kNow);
  EXPECT_EQ(track.state(kNow + std::chrono::minutes(1)).condition, DeviceCondition::responsive);
}

TEST(PollState, UnresponsiveGpuKeepsLastReadingsAndTimes) {
  PollState track(kGpu);
  track.begin_query(1, {Probe::power}, kNow);
  track.finish_query(1, power(5), kNow);
  track.begin_query(2, {Probe::power}, kNow);
  const auto state = track.state(kNow + std::chrono::seconds(9));
  EXPECT_EQ(state.condition, DeviceCondition::unresponsive);
  EXPECT_EQ(*state.sample.number(Metric::power_draw), 5);
  EXPECT_EQ(state.sample.find(Metric::power_draw)->taken, kNow);
}

TEST(PollState, AllReadingsLostIsUnavailable) {
  PollState track(kGpu);
  const ProbeSet probes{Probe::power, Probe::memory};
  track.begin_query(1, probes, kNow);
  track.finish_query(1, missing_sample(probes, {MissingReason::device_lost, "GPU is lost"}, kNow),
                     kNow);
  EXPECT_EQ(track.state(kNow).condition, DeviceCondition::unavailable);
  EXPECT_EQ(track.state(kNow).why, "GPU is lost");
}

// A driver that has corrupted its process's memory may make it answer anything.
TEST(PollState, UnrequestedReadingsAreDiscarded) {
  PollState track(kGpu);
  track.begin_query(1, {Probe::power}, kNow);
  Sample answer = power(5);
  answer.set({Metric::memory_total, 0, kNow, std::int64_t{1}});
  answer.set({Metric::power_draw, 7, kNow, std::int64_t{1}});
  track.finish_query(1, answer, kNow);
  EXPECT_EQ(track.sample().readings().size(), 1U);
  EXPECT_EQ(*track.sample().number(Metric::power_draw), 5);
}

TEST(PollState, ReadingTimeIsClampedToQueryInterval) {
  for (const TimePoint claimed : {TimePoint::min(), TimePoint::max()}) {
    PollState track(kGpu);
    const TimePoint later = kNow + std::chrono::seconds(1);
    track.begin_query(1, {Probe::power}, kNow);
    track.finish_query(1, power(5, claimed), later);
    const TimePoint taken = track.sample().find(Metric::power_draw)->taken;
    EXPECT_TRUE(taken == kNow || taken == later);
  }
}

TEST(PollState, OmittedOrNonNumericReadingIsMissing) {
  PollState track(kGpu);
  track.begin_query(1, {Probe::power, Probe::energy}, kNow);
  Sample answer;
  answer.set({Metric::power_draw, 0, kNow, std::string("much")});
  track.finish_query(1, answer, kNow);
  EXPECT_NE(track.sample().find(Metric::power_draw)->missing(), nullptr);
  EXPECT_NE(track.sample().find(Metric::energy_total)->missing(), nullptr);
}

TEST(PollState, UnopenedGpuIsNeverQueried) {
  DeviceInfo broken = kGpu;
  broken.fault = Missing{MissingReason::failed, "Unknown Error"};
  PollState track(broken);
  track.make_due({Probe::power});
  EXPECT_TRUE(track.next_probes().empty());
  EXPECT_EQ(track.state(kNow).condition, DeviceCondition::unavailable);
}

}  // namespace
}  // namespace gpuyard::telemetry
