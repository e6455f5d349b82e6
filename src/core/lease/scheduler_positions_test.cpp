// The queue positions of waiting claims: position, reason and time.
#include <algorithm>

#include <gtest/gtest.h>

#include "core/lease/scheduler.h"
#include "core/lease/scheduler_fixture_for_tests.h"

namespace gpuyard::lease {
namespace {

TEST(QueuePosition, PositionCountsClaimsSharingEligibleGpus) {
  SchedulerFixture fixture(3);
  fixture.claim(3);
  const Ticket first = fixture.claim(fixture.only(slots({0, 1})));
  const Ticket other = fixture.claim(fixture.only(slots({2})));
  const Ticket second = fixture.claim(fixture.only(slots({1})));
  const Ticket last = fixture.claim(1);
  EXPECT_EQ(fixture.queue_position(first).position, 1U);
  EXPECT_EQ(fixture.queue_position(other).position, 1U);
  EXPECT_EQ(fixture.queue_position(second).position, 2U);
  EXPECT_EQ(fixture.queue_position(last).position, 4U);
}

TEST(QueuePosition, ResultIsLimitedToRequestedCount) {
  SchedulerFixture fixture(1);
  for (int i = 0; i < 4; ++i) fixture.claim(1);
  EXPECT_EQ(fixture.scheduler.queue_positions(fixture.now, 2).size(), 2U);
}

TEST(QueuePosition, HeldGpusGiveReasonBusy) {
  SchedulerFixture fixture(1);
  fixture.claim(1);
  EXPECT_EQ(fixture.queue_position(fixture.claim(1)).reason, WaitReason::busy);
}

TEST(QueuePosition, GpuReservedForHeadGivesReasonBehindEarlier) {
  SchedulerFixture fixture(2, {.strict = true});
  fixture.claim(1);
  const Ticket head = fixture.claim(2);
  const Ticket behind = fixture.claim(1);
  EXPECT_EQ(fixture.queue_position(head).reason, WaitReason::busy);
  EXPECT_EQ(fixture.queue_position(behind).reason, WaitReason::behind_earlier);
}

TEST(QueuePosition, OwnerAtQuotaGivesReasonQuota) {
  SchedulerFixture fixture(4, {.max_gpus_per_owner = 1});
  fixture.claim(1);
  const Ticket waits = fixture.claim(1);
  EXPECT_EQ(fixture.queue_position(waits).reason, WaitReason::quota);
  EXPECT_EQ(fixture.queue_position(waits).expected_start, std::nullopt)
      << "three are free, which is no help";
}

TEST(QueuePosition, TooFewAreInService) {
  SchedulerFixture fixture(2);
  fixture.in_service(0, false);
  EXPECT_EQ(fixture.queue_position(fixture.claim(2)).reason, WaitReason::out_of_service);
}

TEST(QueuePosition, UnleasedProcessGivesSquattedReasonWithoutExpectedStart) {
  SchedulerFixture fixture(2);
  fixture.squatted(0, true);
  const Ticket waits = fixture.claim(2);
  EXPECT_EQ(fixture.queue_position(waits).reason, WaitReason::squatted);
  EXPECT_EQ(fixture.queue_position(waits).expected_start, std::nullopt);
}

TEST(QueuePosition, TooLittleMemoryIsFree) {
  SchedulerFixture fixture(1);
  fixture.free_bytes(0, 1);
  GpuRequest large = fixture.want(1);
  large.min_free_bytes = 2;
  const Ticket waits = fixture.claim(large);
  EXPECT_EQ(fixture.queue_position(waits).reason, WaitReason::memory);
  EXPECT_EQ(fixture.queue_position(waits).expected_start, std::nullopt);
}

TEST(QueuePosition, ClosedSchedulerGivesReasonNotOpen) {
  SchedulerFixture fixture(1);
  fixture.scheduler.close();
  EXPECT_EQ(fixture.queue_position(fixture.claim(1)).reason, WaitReason::not_open);
}

TEST(QueuePosition, ExpectedStartFollowsDeclaredHoldTimes) {
  SchedulerFixture fixture(2);
  fixture.claim(1, 10 * kMinute);
  fixture.claim(1, 30 * kMinute);
  const Ticket one = fixture.claim(1, 5 * kMinute);
  const Ticket two = fixture.claim(2);
  const Ticket three = fixture.claim(1);
  EXPECT_EQ(fixture.queue_position(one).expected_start, TimePoint{} + 10 * kMinute);
  EXPECT_EQ(fixture.queue_position(two).expected_start, TimePoint{} + 30 * kMinute);
  EXPECT_EQ(fixture.queue_position(three).expected_start, std::nullopt)
      << "the one before does not say";
}

TEST(QueuePosition, OverdueOrUndeclaredHoldTimeLeavesStartUnknown) {
  SchedulerFixture fixture(1);
  const Ticket holder = fixture.claim(1, kMinute);
  const Ticket waits = fixture.claim(1);
  EXPECT_TRUE(fixture.queue_position(waits).expected_start);
  fixture.pass(kMinute);
  EXPECT_EQ(fixture.queue_position(waits).expected_start, std::nullopt);
  fixture.release(holder);
  EXPECT_EQ(fixture.queue_position(fixture.claim(1)).expected_start, std::nullopt);
}

TEST(QueuePosition, DrainKeepsExpectedStartUntilHoldTimeEnds) {
  SchedulerFixture fixture(1, {.drains = true});
  fixture.release(fixture.claim(1, kMinute));
  const Ticket waits = fixture.claim(1);
  EXPECT_EQ(fixture.queue_position(waits).expected_start, TimePoint{} + kMinute);
  EXPECT_TRUE(fixture.pass(kMinute).overdue.empty()) << "he let go in time";
  EXPECT_EQ(fixture.queue_position(waits).expected_start, std::nullopt);
}

TEST(QueuePosition, UnstartableClaimDoesNotDelayExpectedStart) {
  SchedulerFixture fixture(2);
  fixture.in_service(1, false);
  fixture.claim(1, kMinute);
  fixture.claim(2);
  const Ticket behind = fixture.claim(1);
  EXPECT_EQ(fixture.queue_position(behind).expected_start, TimePoint{} + kMinute);
}

}  // namespace
}  // namespace gpuyard::lease
