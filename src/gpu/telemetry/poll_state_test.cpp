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

namespace {

Sample failing(MissingReason reason, const std::string& text) {
  return missing_sample({Probe::memory, Probe::power}, {reason, text}, {});
}

TEST(QueryErrors, RepeatedCauseIsLoggedOnceAndCounted) {
  RecordProperty("contract", "E9");
  const CapturedLog log;
  QueryErrors errors;
  for (int i = 0; i < 3; ++i) errors.record(kGpu, failing(MissingReason::failed, "Unknown Error"));
  EXPECT_EQ(log.lines(),
            std::vector<std::string>{"ERROR Error querying GPU device 0: Unknown Error"});
  EXPECT_EQ(errors.count("GPU-a"), 3U);
}

TEST(QueryErrors, AnotherCauseAndAnotherGpuAreLoggedToo) {
  const CapturedLog log;
  QueryErrors errors;
  const DeviceInfo other{"GPU-b", 1, "GPU-b", "", "H100", {}};
  errors.record(kGpu, failing(MissingReason::failed, "Unknown Error"));
  errors.record(kGpu, failing(MissingReason::device_lost, "GPU is lost"));
  errors.record(other, failing(MissingReason::failed, "Unknown Error"));
  EXPECT_EQ(log.lines().size(), 3U);
}

TEST(QueryErrors, UnsupportedOrNotReadyIsNoError) {
  const CapturedLog log;
  QueryErrors errors;
  errors.record(kGpu, failing(MissingReason::not_supported, "Not Supported"));
  errors.record(kGpu, failing(MissingReason::not_ready, ""));
  EXPECT_TRUE(log.lines().empty());
  EXPECT_EQ(errors.count("GPU-a"), 0U);
}

TEST(QueryErrors, DistinctCausesAreBoundedInLogButCounted) {
  const CapturedLog log;
  QueryErrors errors;
  for (int i = 0; i < 5000; ++i) {
    errors.record(kGpu, Missing{MissingReason::failed, "cause " + std::to_string(i)});
  }
  EXPECT_LE(log.lines().size(), QueryErrors::kMaxCauses + 1);
  EXPECT_EQ(errors.count("GPU-a"), 5000U);
}

}  // namespace

namespace {

constexpr WallTime kWall{std::chrono::milliseconds(1'700'000'000'000)};

DeviceInfo gpu(std::uint32_t index, const std::string& uuid) {
  return {uuid, index, uuid, "", "H100", {}};
}

DeviceInfo unopened(std::uint32_t index) {
  return {"index:" + std::to_string(index),
          index,
          "",
          "",
          "",
          Missing{MissingReason::device_lost, "GPU is lost"}};
}

class RosterTest : public ::testing::Test {
 protected:
  void arrive(const std::vector<DeviceInfo>& counted) { roster_.update(counted, kWall); }
  // Returns the list as text: "0 GPU-a, 1 GPU-b (gone)".
  std::string list() const {
    std::string text;
    for (const DeviceInfo& info : roster_.list()) {
      text += (text.empty() ? "" : ", ") + std::to_string(info.index) + " " + info.id;
      if (info.fault)
        text += info.fault->detail.starts_with("not present since") ? " (gone)" : " (faulty)";
    }
    return text;
  }
  Roster roster_;
};

TEST_F(RosterTest, DriverInventoryIsListed) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b");
}

TEST_F(RosterTest, GoneGpuStaysListedWithTimestamp) {
  RecordProperty("contract", "A10");
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-a")});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b (gone)");
  EXPECT_EQ(roster_.list()[1].fault,
            (Missing{MissingReason::device_lost,
                     "not present since 2023-11-14T22:13:20.000Z: the driver does not list it"}));
}

TEST_F(RosterTest, AnIndexIsNeverTwoGpus) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b"), gpu(2, "GPU-c")});
  arrive({gpu(0, "GPU-b"), gpu(1, "GPU-c")});
  EXPECT_EQ(list(), "0 GPU-b, 1 GPU-c, 2 GPU-a (gone)");
  arrive({});
  EXPECT_EQ(list(), "0 GPU-a (gone), 1 GPU-c (gone), 2 GPU-b (gone)");
}

TEST_F(RosterTest, BoardReturningUnderOtherIndexIsListedOnce) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-b")});
  arrive({gpu(0, "GPU-b"), gpu(1, "GPU-a")});
  EXPECT_EQ(list(), "0 GPU-b, 1 GPU-a");
}

TEST_F(RosterTest, MissingBoardIsListedUntilRemoved) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-a")});
  EXPECT_FALSE(roster_.remove_missing("GPU-a"));
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b (gone)");
  EXPECT_TRUE(roster_.remove_missing("GPU-b"));
  EXPECT_EQ(list(), "0 GPU-a");
  EXPECT_FALSE(roster_.remove_missing("GPU-b"));
}

KnownBoard board(std::uint32_t index, const std::string& uuid, bool listed = true) {
  return {uuid,
          index,
          "0000:01:00.0",
          "H100",
          listed,
          kWall - std::chrono::hours(2),
          kWall - std::chrono::hours(1)};
}

TEST_F(RosterTest, ARestoredBoardIsMissingSinceLastSeen) {
  RecordProperty("contract", "A10");
  roster_.restore({board(0, "GPU-a"), board(1, "GPU-b"), board(2, "GPU-c", false)});
  EXPECT_EQ(list(), "2 GPU-c (gone)") << "the driver has not counted yet";
  arrive({gpu(0, "GPU-b")});
  EXPECT_EQ(list(), "0 GPU-b, 2 GPU-c (gone), 3 GPU-a (gone)");
  const DeviceInfo a = roster_.list()[2];
  EXPECT_EQ(
      a.fault->detail,
      "not present since 2023-11-14T21:13:20.000Z: the driver does not list it; it was GPU 0");
  EXPECT_EQ(a.former_index, 0U);
  EXPECT_EQ(own_index(a), std::nullopt);
  EXPECT_EQ(label_of(a), "GPU-a");
  EXPECT_EQ(label_of(roster_.list()[1]), "2") << "no other GPU has that index";
}

TEST_F(RosterTest, BoardsThatAreReadLateAreMissingToo) {
  arrive({gpu(0, "GPU-a")});
  roster_.restore({board(0, "GPU-a"), board(1, "GPU-b")});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b (gone)");
}

TEST_F(RosterTest, AnUnopenedGpuIsTheRestoredBoard) {
  roster_.restore({board(0, "GPU-a"), board(1, "GPU-b")});
  arrive({gpu(0, "GPU-a"), unopened(1)});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b (faulty)");
}

TEST_F(RosterTest, KnowsWhenEachBoardWasLastSeen) {
  roster_.restore({board(0, "GPU-a"), board(1, "GPU-b")});
  arrive({gpu(0, "GPU-b"), unopened(1), gpu(2, "GPU-c")});
  const auto known = roster_.known_boards(kWall);
  ASSERT_EQ(known.size(), 3U);
  EXPECT_TRUE(known[0].uuid == "GPU-b" && known[0].listed && known[0].last_seen == kWall);
  EXPECT_TRUE(known[1].uuid == "GPU-c" && known[1].listed);
  EXPECT_TRUE(known[2].uuid == "GPU-a" && !known[2].listed && known[2].index == 0);
  EXPECT_EQ(known[2].last_seen, kWall - std::chrono::hours(1));
}

TEST_F(RosterTest, UnopenableBoardKeepsItsIdentity) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-a"), unopened(1)});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b (faulty)");
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b");
}

TEST_F(RosterTest, ChangedIndexOrderKeepsGpuIdentities) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-b"), unopened(1)});
  EXPECT_EQ(list(), "0 GPU-b, 1 index:1 (faulty), 2 GPU-a (gone)");
}

TEST_F(RosterTest, AFleetThatChangesForEverIsBounded) {
  for (int i = 0; i < 1000; ++i) arrive({gpu(0, "GPU-" + std::to_string(i))});
  EXPECT_EQ(roster_.list().size(), Roster::kMaxMissing + 1);
}

}  // namespace
}  // namespace gpuyard::telemetry
