#include "core/energy/account.h"

#include <gtest/gtest.h>

#include "core/energy/snapshots_for_tests.h"

namespace gpuyard::energy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{std::chrono::hours(5)};
const Session kSession{"boot-a", "535"};

TimePoint at(double s) {
  return kStart + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}
EnergyReading counted(double s, std::int64_t mj) {
  return {at(s), mj, true, 100'000};
}
EnergyReading powered(double s, std::int64_t mw) {
  return {at(s), std::nullopt, false, mw};
}
EnergyReading silent(double s) {
  return {at(s), std::nullopt, true, 100'000};
}

class AccountTest : public ::testing::Test {
 protected:
  void observe(const EnergyReading& now, const Session& session = kSession) {
    account_.record(now, session, kWall + milliseconds(to_milliseconds(now.taken - kStart)));
  }
  const Amounts& amounts() const { return account_.state().amounts; }

  Account account_{counted(0, 5'000'000), kSession, kWall};
};

TEST_F(AccountTest, EnergyBeforeFirstReadingIsNotBooked) {
  EXPECT_EQ(amounts(), Amounts{});
  observe(counted(1, 5'000'250));
  EXPECT_EQ(amounts().device_mj(), 250);
  EXPECT_EQ(amounts().unattributed_mj, 250);
}

TEST_F(AccountTest, AnOldReadingIsNotBookedTwice) {
  observe(counted(1, 5'000'250));
  observe(counted(1, 5'000'250));
  observe(counted(0.5, 5'000'900));
  EXPECT_EQ(amounts().device_mj(), 250);
}

TEST_F(AccountTest, CounterGapIsBookedOnReturn) {
  observe(counted(1, 5'000'250));
  for (int s = 2; s < 60; ++s) observe(silent(s));
  observe(counted(60, 5'006'000));
  EXPECT_EQ(amounts().device_mj(), 6'000);
  EXPECT_EQ(amounts().estimated_mj, 0);
  EXPECT_EQ(amounts().unknown, Duration::zero());
}

TEST_F(AccountTest, CounterDropStartsEpochWithoutNegativeEnergy) {
  observe(counted(1, 5'000'250));
  observe(counted(2, 40));
  EXPECT_EQ(account_.state().epoch, 2U);
  EXPECT_EQ(amounts().device_mj(), 290) << "it counts from zero since the reset";
  EXPECT_EQ(account_.state().epoch_start_mj, 250);
  EXPECT_EQ(amounts().unknown, seconds(1)) << "what it used before the reset is lost";
  observe(counted(3, 140));
  EXPECT_EQ(amounts().device_mj(), 390);
  EXPECT_EQ(account_.state().epoch, 2U);
}

TEST_F(AccountTest, ACounterThatJumpsIsNotBelieved) {
  observe(counted(1, 5'000'250));
  observe(counted(2, 9'000'000'000));
  EXPECT_EQ(amounts().device_mj(), 250);
  EXPECT_EQ(account_.state().epoch, 2U);
  EXPECT_EQ(amounts().unknown, seconds(1));
}

TEST_F(AccountTest, StrayZeroReadingAddsNoEnergy) {
  Account busy(counted(0, 5'000'000'000), kSession, kWall);
  busy.record(counted(1, 5'000'000'250), kSession, kWall);
  busy.record(counted(2, 0), kSession, kWall);
  busy.record(counted(3, 5'000'000'750), kSession, kWall);
  EXPECT_EQ(busy.state().amounts.device_mj(), 250);
  EXPECT_EQ(busy.state().epoch, 3U);
}

TEST_F(AccountTest, AnImpossiblePowerIsUnknownAndNotBooked) {
  for (const std::int64_t mw : {std::int64_t{4'000'000'000}, std::int64_t{-1}}) {
    Account t4(powered(0, 60'000), kSession, kWall);
    t4.record(powered(1, mw), kSession, kWall);
    t4.record(powered(2, 60'000), kSession, kWall);
    t4.record(powered(3, 60'000), kSession, kWall);
    EXPECT_EQ(t4.state().amounts.device_mj(), 60'000);
    EXPECT_EQ(t4.state().amounts.unknown, seconds(2)) << "the steps to and from that reading";
  }
}

TEST_F(AccountTest, ContradictedReadingIsUnknown) {
  observe(counted(1, 5'000'250));
  EnergyReading contradicted = counted(2, 5'900'250);
  contradicted.contradicted = true;
  observe(contradicted);
  EXPECT_EQ(amounts().device_mj(), 250);
  EXPECT_EQ(amounts().unknown, seconds(1));
  observe(counted(3, 5'900'500));
  EXPECT_EQ(amounts().device_mj(), 500) << "later energy is booked again";
}

TEST_F(AccountTest, ACounterThatCatchesUpIsBelieved) {
  observe(counted(0.001, 5'000'700));
  EXPECT_EQ(amounts().device_mj(), 700);
  EXPECT_EQ(account_.state().epoch, 1U);
}

TEST_F(AccountTest, PowerIsIntegratedWithoutCounter) {
  Account t4(powered(0, 60'000), kSession, kWall);
  t4.record(powered(1, 70'000), kSession, kWall);
  t4.record(powered(3, 50'000), kSession, kWall);
  EXPECT_EQ(t4.state().amounts.device_mj(), 65'000 + 120'000);
  EXPECT_EQ(t4.state().amounts.estimated_mj, 185'000);
  EXPECT_EQ(t4.state().amounts.unknown, Duration::zero());
}

TEST_F(AccountTest, SmallStepsLoseNoMillijoules) {
  Account t4(powered(0, 333), kSession, kWall);
  for (int i = 1; i <= 10'000; ++i) t4.record(powered(i * 0.001, 333), kSession, kWall);
  EXPECT_NEAR(static_cast<double>(t4.state().amounts.device_mj()), 3330, 1);
}

TEST_F(AccountTest, GapWithoutPowerIsUnknown) {
  Account t4(powered(0, 60'000), kSession, kWall);
  t4.record(powered(60, 60'000), kSession, kWall);
  EXPECT_EQ(t4.state().amounts.device_mj(), 0);
  EXPECT_EQ(t4.state().amounts.unknown, seconds(60));
}

TEST_F(AccountTest, LongerIntervalAllowsLongerSteps) {
  Account t4(powered(0, 60'000), kSession, kWall);
  Session slow = kSession;
  slow.max_step = seconds(14);
  t4.record(powered(10, 60'000), slow, kWall);
  EXPECT_EQ(t4.state().amounts.device_mj(), 600'000);
  EXPECT_EQ(t4.state().amounts.unknown, Duration::zero());
}

TEST_F(AccountTest, EstimateStaysWhenCounterReturns) {
  observe(powered(1, 100'000));
  observe(powered(2, 100'000));
  observe(counted(3, 5'900'000));
  EXPECT_EQ(amounts().device_mj(), 300'000) << "not what it counted of the same time as well";
  EXPECT_EQ(amounts().estimated_mj, 300'000);
  observe(counted(4, 5'900'500));
  EXPECT_EQ(amounts().device_mj(), 300'500);
}

TEST_F(AccountTest, GrowthDuringDaemonDowntimeIsBookedSeparately) {
  observe(counted(1, 5'000'250));
  Account again(account_.state());
  again.record(counted(3600, 5'400'250), kSession, kWall);
  EXPECT_EQ(again.state().amounts.daemon_down_mj, 400'000);
  EXPECT_EQ(again.state().epoch, 1U);
  again.record(counted(3601, 5'400'350), kSession, kWall);
  EXPECT_EQ(again.state().amounts.unattributed_mj, 350);
  EXPECT_EQ(again.state().amounts.daemon_down_mj, 400'000);
}

TEST_F(AccountTest, NewBootStartsEpochDespiteHigherCounter) {
  Account again(account_.state());
  again.record(counted(3600, 6'000'000), {"boot-b", "535"}, kWall);
  EXPECT_EQ(again.state().epoch, 2U);
  EXPECT_EQ(again.state().amounts.daemon_down_mj, 6'000'000) << "all of it since that boot";
  EXPECT_EQ(again.state().amounts.unknown, seconds(3600));
  EXPECT_EQ(again.state().session.boot_id, "boot-b");
}

TEST_F(AccountTest, DowntimeWithoutCounterIsUnknown) {
  Account t4(powered(0, 60'000), kSession, kWall);
  Account again(t4.state());
  again.record(powered(2, 60'000), kSession, kWall);
  EXPECT_EQ(again.state().amounts.device_mj(), 0);
  EXPECT_EQ(again.state().amounts.unknown, seconds(2));
}

TEST_F(AccountTest, PrependedAccountAddsAmountsAndEpochs) {
  observe(counted(1, 100));  // a reset: the second epoch
  observe(counted(2, 300));
  AccountState earlier;
  earlier.first_seen = kWall - std::chrono::hours(1);
  earlier.epoch = 4;
  earlier.amounts = {1'000, 50, 20, seconds(7)};
  account_.prepend(earlier);
  const AccountState& state = account_.state();
  EXPECT_EQ(state.epoch, 5U);
  EXPECT_EQ(state.first_seen, earlier.first_seen);
  EXPECT_EQ(state.amounts, (Amounts{1'300, 50, 20, seconds(8)}));
  EXPECT_EQ(state.epoch_start_mj, 1'050);
}

TEST(EnergyReadingOf, AnImpossiblePowerIsNone) {
  Sample sample;
  sample.set({Metric::power_draw, 0, kStart, std::int64_t{4'000'000'000}});
  EXPECT_FALSE(energy_reading_of(sample));
}

TEST(EnergyReadingOf, SampleWithoutEnergyAndPowerIsEmpty) {
  EXPECT_FALSE(energy_reading_of(Sample{}));
  EXPECT_FALSE(energy_reading_of(
      missing_sample({Probe::energy, Probe::power}, {MissingReason::timed_out, ""}, kStart)));
}

TEST(EnergyReadingOf, OnlyUnsupportedCounterCountsAsAbsent) {
  for (const auto reason : {MissingReason::not_supported, MissingReason::no_permission,
                            MissingReason::failed, MissingReason::timed_out}) {
    Sample sample = missing_sample({Probe::energy}, {reason, ""}, kStart);
    sample.set({Metric::power_draw, 0, kStart, std::int64_t{60'000}});
    const auto seen = energy_reading_of(sample);
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->power_mw, 60'000);
    const bool none =
        reason == MissingReason::not_supported || reason == MissingReason::no_permission;
    EXPECT_EQ(seen->has_counter, !none);
  }
}

}  // namespace
}  // namespace gpuyard::energy
