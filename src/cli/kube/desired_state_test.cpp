#include "cli/kube/desired_state.h"

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace gpuyard::cli::kube {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const TimePoint kStart{std::chrono::hours(5)};

protocol::GpuVerdicts good_gpus(std::uint32_t count) {
  protocol::GpuVerdicts verdicts;
  for (std::uint32_t i = 0; i < count; ++i) {
    protocol::GpuVerdict gpu;
    gpu.index = i;
    gpu.uuid = fmt::format("GPU-{}", i);
    gpu.verdict = Verdict::good;
    verdicts.gpus.push_back(gpu);
  }
  verdicts.count = count;
  return verdicts;
}

void make_bad(protocol::GpuVerdict& gpu, const std::string& rule) {
  gpu.verdict = Verdict::bad;
  gpu.rule = rule;
  gpu.why = fmt::format("GPU {}: {} fires", gpu.index, rule);
  gpu.advice = "Reset it.";
}

void make_good(protocol::GpuVerdict& gpu) {
  gpu.verdict = Verdict::good;
  gpu.rule.reset();
  gpu.why.clear();
  gpu.advice.clear();
}

void make_unknown(protocol::GpuVerdict& gpu) {
  make_good(gpu);
  gpu.verdict = Verdict::unknown;
  gpu.why = "not read yet";
}

Desired desired_of(const protocol::GpuVerdicts& verdicts) {
  return desired_state({verdicts, kStart}, {}, kStart);
}

TEST(DesiredState, GoodGpusGiveTrue) {
  const Desired desired = desired_of(good_gpus(4));
  EXPECT_EQ(desired.condition,
            (ConditionText{ConditionStatus::yes, "GPUsGood", "4 of 4 GPUs are good"}));
  EXPECT_TRUE(desired.is_known);
  EXPECT_TRUE(desired.is_complete);
  EXPECT_THAT(desired.gpus, SizeIs(4));
}

TEST(DesiredState, BadGpuGivesFalseWithRuleAndAdvice) {
  auto verdicts = good_gpus(4);
  make_bad(verdicts.gpus[2], "xid-fatal");
  const Desired desired = desired_of(verdicts);
  EXPECT_EQ(desired.condition,
            (ConditionText{ConditionStatus::no, "XidFatal",
                           "GPU 2: xid-fatal fires. Reset it. (3 of 4 GPUs are good)"}));
  EXPECT_EQ(desired.gpus[2], (DesiredGpu{2, "GPU-2", Verdict::bad, "xid-fatal", false,
                                         "GPU 2: xid-fatal fires. Reset it."}));
}

TEST(DesiredState, ReasonIsOfLowestBadGpu) {
  auto verdicts = good_gpus(4);
  make_bad(verdicts.gpus[3], "poison");
  make_bad(verdicts.gpus[1], "xid-fatal");
  std::ranges::reverse(verdicts.gpus);
  EXPECT_EQ(desired_of(verdicts).condition->reason, "XidFatal");
  EXPECT_EQ(desired_of(verdicts).gpus.front().index, 0U);
}

TEST(DesiredState, UnknownGpuGivesUnknown) {
  auto verdicts = good_gpus(2);
  make_unknown(verdicts.gpus[1]);
  EXPECT_EQ(desired_of(verdicts).condition->status, ConditionStatus::unknown);
  EXPECT_EQ(desired_of(verdicts).condition->reason, "GPUsUnknown");
  make_bad(verdicts.gpus[0], "xid-fatal");
  EXPECT_EQ(desired_of(verdicts).condition->status, ConditionStatus::no);
}

TEST(DesiredState, CordonedGpuIsStillHealthy) {
  auto verdicts = good_gpus(2);
  verdicts.gpus[1].cordoned = "new fan";
  const Desired desired = desired_of(verdicts);
  EXPECT_EQ(desired.condition->status, ConditionStatus::yes);
  EXPECT_EQ(desired.condition->reason, "GPUsCordoned");
  EXPECT_THAT(desired.condition->message, HasSubstr("GPU 1: new fan"));
  EXPECT_TRUE(desired.gpus[1].cordoned);
  EXPECT_EQ(desired.gpus[1].cordon_reason, "new fan");
}

TEST(DesiredState, DriverErrorIsUnknownUntilAlert) {
  auto verdicts = good_gpus(0);
  verdicts.driver_error = "not loaded";
  EXPECT_EQ(desired_of(verdicts).condition->status, ConditionStatus::unknown);
  EXPECT_EQ(desired_of(verdicts).condition->reason, "NoDriver");
  EXPECT_FALSE(desired_of(verdicts).driver_down);
  EXPECT_FALSE(desired_of(verdicts).is_complete);
  verdicts.driver_down = true;
  EXPECT_EQ(desired_of(verdicts).condition->status, ConditionStatus::no);
  EXPECT_EQ(desired_of(verdicts).condition->reason, "DriverDown");
  EXPECT_TRUE(desired_of(verdicts).driver_down);
}

TEST(DesiredState, NoGpuOrMalformedOneGivesUnknown) {
  EXPECT_EQ(desired_of(good_gpus(0)).condition->reason, "NoGPUs");
  auto verdicts = good_gpus(2);
  verdicts.count = 3;
  EXPECT_EQ(desired_of(verdicts).condition->status, ConditionStatus::unknown);
  EXPECT_FALSE(desired_of(verdicts).is_complete);
}

TEST(DesiredState, SilentDaemonGivesUnknownAfterTimeout) {
  const DaemonReport report{good_gpus(1), kStart};
  EXPECT_TRUE(desired_state(report, {}, kStart + seconds(29)).is_known);
  const Desired desired = desired_state(report, {}, kStart + seconds(30));
  EXPECT_FALSE(desired.is_known);
  EXPECT_EQ(desired.condition->status, ConditionStatus::unknown);
  EXPECT_EQ(desired.condition->reason, "DaemonSilent");
}

TEST(DesiredState, NoConditionBeforeFirstVerdict) {
  const DaemonReport report{{}, kStart};
  const Desired desired = desired_state(report, {}, kStart + seconds(29));
  EXPECT_FALSE(desired.condition);
  EXPECT_FALSE(desired.is_known);
  EXPECT_EQ(desired_state(report, {}, kStart + seconds(30)).condition->reason, "DaemonSilent");
}

TEST(DesiredState, OldDaemonGivesUnknown) {
  const DaemonReport report{.answered_at = kStart, .too_old = true};
  const Desired desired = desired_state(report, {}, kStart);
  EXPECT_EQ(desired.condition->status, ConditionStatus::unknown);
  EXPECT_EQ(desired.condition->reason, "DaemonTooOld");
  EXPECT_FALSE(desired.is_known);
}

TEST(DesiredState, LongMessageIsCutBetweenCharacters) {
  for (std::size_t shift = 0; shift < 4; ++shift) {
    auto verdicts = good_gpus(1);
    make_bad(verdicts.gpus[0], "mine");
    verdicts.gpus[0].why = std::string(shift, 'x');
    for (int i = 0; i < 400; ++i) verdicts.gpus[0].why += "\xE2\x82\xAC";
    const std::string message = desired_of(verdicts).condition->message;
    EXPECT_LE(message.size(), kMaxMessageBytes);
    EXPECT_GE(message.size(), kMaxMessageBytes - 2);
    EXPECT_THAT(message, EndsWith("..."));
    EXPECT_EQ(printable(message), message) << "half a character";
  }
}

TEST(DesiredState, MessageHasNoControlCharacter) {
  auto verdicts = good_gpus(1);
  verdicts.gpus[0].cordoned = "a\nb\xFF";
  EXPECT_THAT(desired_of(verdicts).condition->message, HasSubstr("a?b?"));
}

// A daemon whose GPU 0 changes, and the agent that records each verdict.
class Flapping : public testing::Test {
 protected:
  Desired at(Duration since_start, Verdict verdict, const char* rule = "xid-fatal") {
    auto verdicts = good_gpus(2);
    if (verdict == Verdict::bad) make_bad(verdicts.gpus[0], rule);
    if (verdict == Verdict::unknown) make_unknown(verdicts.gpus[0]);
    const TimePoint now = kStart + since_start;
    record_verdicts(flaps_, verdicts, now);
    return desired_state({verdicts, now}, flaps_, now);
  }
  Verdict verdict_at(Duration since_start, Verdict verdict) {
    return at(since_start, verdict).gpus[0].verdict;
  }
  void turn_bad_three_times() {
    for (const int minute : {0, 2, 4}) {
      at(minutes(minute), Verdict::bad);
      at(minutes(minute + 1), Verdict::good);
    }
  }

  FlapRecords flaps_;
};

TEST_F(Flapping, SecondTurnCountsAsGoodAtOnce) {
  at(minutes(0), Verdict::bad);
  EXPECT_EQ(verdict_at(minutes(1), Verdict::good), Verdict::good);
  at(minutes(2), Verdict::bad);
  EXPECT_EQ(verdict_at(minutes(3), Verdict::good), Verdict::good);
}

TEST_F(Flapping, ThirdTurnCountsAsBadUntilQuiet) {
  turn_bad_three_times();
  const Desired desired = at(minutes(6), Verdict::good);
  EXPECT_EQ(desired.gpus[0].verdict, Verdict::bad);
  EXPECT_EQ(desired.gpus[0].rule, "xid-fatal");
  EXPECT_THAT(desired.gpus[0].message, HasSubstr("has turned bad 3 times within an hour"));
  EXPECT_EQ(desired.condition->status, ConditionStatus::no);
  EXPECT_THAT(desired.condition->message, HasSubstr("has turned bad 3 times within an hour"));
  EXPECT_THAT(desired.condition->message, HasSubstr("30 minutes"));
  EXPECT_EQ(desired.gpus[1].verdict, Verdict::good);
  EXPECT_EQ(verdict_at(minutes(35) - seconds(1), Verdict::good), Verdict::bad);
  EXPECT_EQ(verdict_at(minutes(35), Verdict::good), Verdict::good);
}

TEST_F(Flapping, ThirdTurnAfterAnHourCountsAsGood) {
  at(minutes(0), Verdict::bad);
  at(minutes(1), Verdict::good);
  at(minutes(30), Verdict::bad);
  at(minutes(31), Verdict::good);
  at(minutes(60), Verdict::bad);
  EXPECT_EQ(verdict_at(minutes(61), Verdict::good), Verdict::good);
}

TEST_F(Flapping, LongAlertIsOneTurn) {
  for (int minute = 0; minute < 10; ++minute) at(minutes(minute), Verdict::bad);
  EXPECT_EQ(verdict_at(minutes(10), Verdict::good), Verdict::good);
}

TEST_F(Flapping, BadAfterUnknownIsNoTurn) {
  for (const int minute : {0, 2, 4}) {
    at(minutes(minute), Verdict::bad);
    at(minutes(minute + 1), Verdict::unknown);
  }
  EXPECT_EQ(verdict_at(minutes(6), Verdict::good), Verdict::good);
}

TEST_F(Flapping, UnknownIsNotQuiet) {
  turn_bad_three_times();
  EXPECT_EQ(verdict_at(minutes(20), Verdict::unknown), Verdict::unknown);
  EXPECT_EQ(verdict_at(minutes(21), Verdict::good), Verdict::bad);
  EXPECT_EQ(verdict_at(minutes(50), Verdict::good), Verdict::bad);
  EXPECT_EQ(verdict_at(minutes(51), Verdict::good), Verdict::good);
}

TEST_F(Flapping, SilenceIsNotQuiet) {
  turn_bad_three_times();
  record_silence(flaps_);
  EXPECT_EQ(verdict_at(minutes(36), Verdict::good), Verdict::bad);
  EXPECT_EQ(verdict_at(minutes(66), Verdict::good), Verdict::good);
}

TEST_F(Flapping, TenthTurnHoldsAsThird) {
  for (int minute = 0; minute < 20; minute += 2) {
    at(minutes(minute), Verdict::bad);
    at(minutes(minute + 1), Verdict::good);
  }
  EXPECT_THAT(flaps_.at("GPU-0").turned_bad_at, SizeIs(kFlapTurns));
  EXPECT_EQ(verdict_at(minutes(48), Verdict::good), Verdict::bad);
  EXPECT_EQ(verdict_at(minutes(49), Verdict::good), Verdict::good);
}

TEST_F(Flapping, RecordOfQuietGpuIsForgotten) {
  turn_bad_three_times();
  at(minutes(40), Verdict::good);
  EXPECT_THAT(flaps_, Not(IsEmpty()));
  at(minutes(65), Verdict::good);
  EXPECT_THAT(flaps_, IsEmpty());
}

TEST_F(Flapping, RecordOfRemovedGpuIsForgottenAfterAnHour) {
  turn_bad_three_times();
  auto verdicts = good_gpus(1);
  verdicts.gpus[0].uuid = "GPU-1";
  record_verdicts(flaps_, verdicts, kStart + minutes(63));
  EXPECT_THAT(flaps_, Not(IsEmpty()));
  verdicts.count = 2;  // the driver has one more, which is not listed
  record_verdicts(flaps_, verdicts, kStart + minutes(65));
  EXPECT_THAT(flaps_, Not(IsEmpty()));
  verdicts.count = 1;
  record_verdicts(flaps_, verdicts, kStart + minutes(65));
  EXPECT_THAT(flaps_, IsEmpty());
}

TEST_F(Flapping, MomentOfAnotherBootIsForgotten) {
  turn_bad_three_times();
  at(-std::chrono::hours(1), Verdict::good);
  EXPECT_THAT(flaps_.at("GPU-0").turned_bad_at, IsEmpty());
  EXPECT_EQ(verdict_at(minutes(-30), Verdict::good), Verdict::good);
}

}  // namespace
}  // namespace gpuyard::cli::kube
