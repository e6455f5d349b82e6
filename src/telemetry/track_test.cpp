#include "telemetry/track.h"

#include <gtest/gtest.h>

#include "device/catalog.h"

namespace gpuyard::telemetry {
namespace {

const DeviceInfo kGpu{"GPU-a", 0, "GPU-a", "0000:01:00.0", "H100", {}};
constexpr TimePoint kNow{std::chrono::hours(1)};

Sample power(std::int64_t milliwatts, TimePoint taken = kNow) {
  Sample sample;
  sample.set({Metric::power_draw, 0, taken, milliwatts});
  return sample;
}

TEST(Track, NothingIsAskedUntilSomethingIsDue) {
  EXPECT_TRUE(Track(kGpu).next().empty());
}

TEST(Track, TheFastTierGoesTogetherAndBeforeTheSlow) {
  Track track(kGpu);
  track.make_due(probes_of(Tier::fast) | probes_of(Tier::slow));
  EXPECT_EQ(track.next(), probes_of(Tier::fast));
}

TEST(Track, TheSlowTierGoesOneCallAtATime) {
  Track track(kGpu);
  track.make_due(probes_of(Tier::slow) | ProbeSet{Probe::power_limit});
  int calls = 0;
  track.next().each([&](Probe) { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(Track, WhatSomebodyWaitsForGoesFirst) {
  Track track(kGpu);
  track.make_due(probes_of(Tier::fast));
  track.make_urgent({Probe::memory});
  EXPECT_EQ(track.next(), ProbeSet{Probe::memory});
}

TEST(Track, AtMostOneQuestionIsOut) {
  Track track(kGpu);
  track.make_due({Probe::power});
  track.asked(1, track.next(), kNow);
  track.make_due({Probe::memory});
  EXPECT_TRUE(track.next().empty());
  EXPECT_TRUE(track.answered(1, power(5)));
  EXPECT_EQ(track.next(), ProbeSet{Probe::memory});
}

TEST(Track, AnAnswerToAnotherQuestionIsDropped) {
  Track track(kGpu);
  track.asked(2, {Probe::power}, kNow);
  EXPECT_FALSE(track.answered(1, power(5)));
  EXPECT_EQ(track.sample().number(Metric::power_draw), nullptr);
}

TEST(Track, AGpuIsUnresponsiveWhileAnAnswerIsOverdueAndWellAgainAfterIt) {
  Track track(kGpu);
  track.asked(1, {Probe::power}, kNow);
  EXPECT_FALSE(track.unresponsive(kNow + kUnresponsiveAfter - Duration(1)));
  EXPECT_EQ(track.state(kNow + kUnresponsiveAfter).condition, DeviceCondition::unresponsive);
  track.answered(1, power(5));
  EXPECT_EQ(track.state(kNow + kUnresponsiveAfter).condition, DeviceCondition::responsive);
}

TEST(Track, AnUnresponsiveGpuKeepsItsLastReadingsWithTheirTime) {
  Track track(kGpu);
  track.asked(1, {Probe::power}, kNow);
  track.answered(1, power(5));
  track.asked(2, {Probe::power}, kNow);
  const auto state = track.state(kNow + std::chrono::seconds(9));
  EXPECT_EQ(state.condition, DeviceCondition::unresponsive);
  EXPECT_EQ(*state.sample.number(Metric::power_draw), 5);
  EXPECT_EQ(state.sample.find(Metric::power_draw)->taken, kNow);
}

TEST(Track, AGpuWhoseEveryReadingIsLostIsUnavailable) {
  Track track(kGpu);
  track.asked(1, {Probe::power}, kNow);
  track.answered(1, missing_sample({Probe::power, Probe::memory},
                                   {MissingReason::device_lost, "GPU is lost"}, kNow));
  EXPECT_EQ(track.state(kNow).condition, DeviceCondition::unavailable);
  EXPECT_EQ(track.state(kNow).why, "GPU is lost");
}

TEST(Track, AGpuThatWouldNotOpenIsNeverAsked) {
  DeviceInfo broken = kGpu;
  broken.fault = Missing{MissingReason::failed, "Unknown Error"};
  Track track(broken);
  track.make_due({Probe::power});
  EXPECT_TRUE(track.next().empty());
  EXPECT_EQ(track.state(kNow).condition, DeviceCondition::unavailable);
}

}  // namespace
}  // namespace gpuyard::telemetry
