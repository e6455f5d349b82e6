#include "gpu/device/ecc_baseline.h"

#include <limits>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

constexpr Metric kLifetime = Metric::ecc_uncorrected_aggregate;
constexpr Metric kSinceLoad = Metric::ecc_uncorrected_volatile;

class EccBaselineTest : public testing::Test {
 protected:
  EccBaselineTest() {
    RecordProperty("contract", "A9");
    baseline_.update(kLifetime, 5);
  }
  EccBaseline baseline_;
};

TEST_F(EccBaselineTest, ErrorsBeforeFirstReadAreNotNew) {
  EXPECT_EQ(baseline_.new_errors(), 0);
}

TEST_F(EccBaselineTest, GrowthIsNewUntilItIsAcknowledged) {
  baseline_.update(kLifetime, 7);
  EXPECT_EQ(baseline_.new_errors(), 2);
  baseline_.update(kLifetime, 7);
  EXPECT_EQ(baseline_.new_errors(), 2);
  baseline_.acknowledge();
  EXPECT_EQ(baseline_.new_errors(), 0);
  baseline_.update(kLifetime, 8);
  EXPECT_EQ(baseline_.new_errors(), 1);
}

TEST_F(EccBaselineTest, ClearingTheCounterStartsOver) {
  baseline_.update(kLifetime, 7);
  baseline_.update(kLifetime, 0);
  EXPECT_EQ(baseline_.new_errors(), 0);
  baseline_.update(kLifetime, 1);
  EXPECT_EQ(baseline_.new_errors(), 1);
}

TEST_F(EccBaselineTest, ErrorsBetweenClearAndNextReadAreNew) {
  baseline_.update(kLifetime, 2);
  EXPECT_EQ(baseline_.new_errors(), 2);
}

TEST_F(EccBaselineTest, AnotherCounterIsNoGrowthOfTheFirst) {
  baseline_.update(kSinceLoad, 9);
  EXPECT_EQ(baseline_.new_errors(), 0);
}

TEST_F(EccBaselineTest, ContainedErrorWaitsForProcessExit) {
  baseline_.add_contained(4711);
  baseline_.update(kLifetime, 6);
  EXPECT_EQ(baseline_.new_errors(), 0);
  EXPECT_EQ(baseline_.contained_pids().size(), 1U);
  baseline_.remove_process(4711);
  EXPECT_TRUE(baseline_.contained_pids().empty());
  EXPECT_EQ(baseline_.new_errors(), 0);
  baseline_.update(kLifetime, 7);
  EXPECT_EQ(baseline_.new_errors(), 1);
}

TEST_F(EccBaselineTest, AnotherCounterEndsNoVerdict) {
  baseline_.update(kLifetime, 7);
  baseline_.update(kSinceLoad, 2);
  EXPECT_EQ(baseline_.new_errors(), 2);
  baseline_.update(kSinceLoad, 3);
  EXPECT_EQ(baseline_.new_errors(), 3);
}

TEST_F(EccBaselineTest, AResetThatIsSeenMakesErrorsKnown) {
  baseline_.update(kLifetime, 7, 2);
  EXPECT_EQ(baseline_.new_errors(), 2);
  baseline_.update(kLifetime, 7, 0);
  EXPECT_EQ(baseline_.new_errors(), 0);
  baseline_.update(kLifetime, 8, 1);
  EXPECT_EQ(baseline_.new_errors(), 1);
}

TEST_F(EccBaselineTest, ErrorsRightAfterAResetAreNew) {
  baseline_.update(kLifetime, 9, 4);
  baseline_.update(kLifetime, 10, 1);
  EXPECT_EQ(baseline_.new_errors(), 1);
}

TEST_F(EccBaselineTest, UnreadCounterIsNoReset) {
  baseline_.update(kLifetime, 7, 2);
  baseline_.update(kLifetime, 7);
  EXPECT_EQ(baseline_.new_errors(), 2);
  baseline_.update(kLifetime, 7, 0);
  EXPECT_EQ(baseline_.new_errors(), 0);
}

TEST_F(EccBaselineTest, ARestartOfTheDaemonEndsNoVerdict) {
  baseline_.update(kLifetime, 7, 2);
  baseline_.add_contained(4711);
  EccBaseline after;
  after.restore(baseline_.state(), false);
  EXPECT_EQ(after.state(), baseline_.state());
  EXPECT_EQ(after.new_errors(), 1);
  EXPECT_EQ(after.contained_pids().size(), 1U);
  after.update(kLifetime, 8, 3);
  EXPECT_EQ(after.new_errors(), 2) << "one while no daemon was there";
}

TEST_F(EccBaselineTest, ARestartThatMissedAResetSeesIt) {
  baseline_.update(kLifetime, 7, 2);
  EccBaseline after;
  after.restore(baseline_.state(), false);
  after.update(kLifetime, 7, 0);
  EXPECT_EQ(after.new_errors(), 0);
}

TEST_F(EccBaselineTest, OnlyErrorsAfterRebootAreNew) {
  baseline_.update(kLifetime, 7, 2);
  baseline_.add_contained(4711);
  EccBaseline after;
  after.restore(baseline_.state(), true);
  EXPECT_EQ(after.new_errors(), 0);
  EXPECT_TRUE(after.contained_pids().empty());
  after.update(kLifetime, 12, 3);  // two before the reboot, three after it
  EXPECT_EQ(after.new_errors(), 3);
}

TEST(EccBaseline, CounterSinceLoadRestartsAtReboot) {
  EccBaseline before;
  before.update(kSinceLoad, 1, 1);
  before.update(kSinceLoad, 3, 3);
  EccBaseline after;
  after.restore(before.state(), true);
  after.update(kSinceLoad, 4, 4);
  EXPECT_EQ(after.new_errors(), 4);
  after.acknowledge();
  EXPECT_EQ(after.new_errors(), 0);
}

TEST_F(EccBaselineTest, TheLargestCounterIsNoOverflow) {
  baseline_.update(kLifetime, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(baseline_.new_errors(), std::numeric_limits<std::int64_t>::max() - 5);
}

}  // namespace

}  // namespace gpuyard
