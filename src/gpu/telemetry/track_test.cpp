#include "telemetry/track.h"

#include <gtest/gtest.h>

#include "device/catalog.h"
#include "telemetry/telemetry_for_tests.h"

namespace gpuyard::telemetry {
namespace {

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
  EXPECT_TRUE(track.answered(1, power(5), kNow));
  EXPECT_EQ(track.next(), ProbeSet{Probe::memory});
}

TEST(Track, AnAnswerToAnotherQuestionIsDropped) {
  Track track(kGpu);
  track.asked(2, {Probe::power}, kNow);
  EXPECT_FALSE(track.answered(1, power(5), kNow));
  EXPECT_EQ(track.sample().number(Metric::power_draw), nullptr);
}

TEST(Track, AGpuIsUnresponsiveWhileAnAnswerIsOverdueAndWellAgainAfterIt) {
  Track track(kGpu);
  track.asked(1, {Probe::power}, kNow);
  EXPECT_FALSE(track.unresponsive(kNow + kUnresponsiveAfter - Duration(1)));
  EXPECT_EQ(track.state(kNow + kUnresponsiveAfter).condition, DeviceCondition::unresponsive);
  track.answered(1, power(5), kNow);
  EXPECT_EQ(track.state(kNow + kUnresponsiveAfter).condition, DeviceCondition::responsive);
}

TEST(Track, AnUnresponsiveGpuKeepsItsLastReadingsWithTheirTime) {
  Track track(kGpu);
  track.asked(1, {Probe::power}, kNow);
  track.answered(1, power(5), kNow);
  track.asked(2, {Probe::power}, kNow);
  const auto state = track.state(kNow + std::chrono::seconds(9));
  EXPECT_EQ(state.condition, DeviceCondition::unresponsive);
  EXPECT_EQ(*state.sample.number(Metric::power_draw), 5);
  EXPECT_EQ(state.sample.find(Metric::power_draw)->taken, kNow);
}

TEST(Track, AGpuWhoseEveryReadingIsLostIsUnavailable) {
  Track track(kGpu);
  const ProbeSet probes{Probe::power, Probe::memory};
  track.asked(1, probes, kNow);
  track.answered(1, missing_sample(probes, {MissingReason::device_lost, "GPU is lost"}, kNow),
                 kNow);
  EXPECT_EQ(track.state(kNow).condition, DeviceCondition::unavailable);
  EXPECT_EQ(track.state(kNow).why, "GPU is lost");
}

// A driver that has scribbled over its process's memory may make it say anything.
TEST(Track, OfAnAnswerOnlyWhatWasAskedIsTaken) {
  Track track(kGpu);
  track.asked(1, {Probe::power}, kNow);
  Sample answer = power(5);
  answer.set({Metric::memory_total, 0, kNow, std::int64_t{1}});
  answer.set({Metric::power_draw, 7, kNow, std::int64_t{1}});
  track.answered(1, answer, kNow);
  EXPECT_EQ(track.sample().readings().size(), 1U);
  EXPECT_EQ(*track.sample().number(Metric::power_draw), 5);
}

TEST(Track, AnAnswerIsNeitherOlderThanItsQuestionNorFromTheFuture) {
  for (const TimePoint claimed : {TimePoint::min(), TimePoint::max()}) {
    Track track(kGpu);
    const TimePoint later = kNow + std::chrono::seconds(1);
    track.asked(1, {Probe::power}, kNow);
    track.answered(1, power(5, claimed), later);
    const TimePoint taken = track.sample().find(Metric::power_draw)->taken;
    EXPECT_TRUE(taken == kNow || taken == later);
  }
}

TEST(Track, ARowThatIsLeftOutOrIsNoNumberIsMissing) {
  Track track(kGpu);
  track.asked(1, {Probe::power, Probe::energy}, kNow);
  Sample answer;
  answer.set({Metric::power_draw, 0, kNow, std::string("much")});
  track.answered(1, answer, kNow);
  EXPECT_NE(track.sample().find(Metric::power_draw)->missing(), nullptr);
  EXPECT_NE(track.sample().find(Metric::energy_total)->missing(), nullptr);
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
