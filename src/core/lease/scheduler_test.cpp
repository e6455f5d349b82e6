// Order and placement: which claim is served, and what keeps one waiting.
#include "core/lease/scheduler.h"

#include <gtest/gtest.h>

#include "core/lease/scheduler_fixture_for_tests.h"

namespace gpuyard::lease {
namespace {

using Tickets = std::vector<Ticket>;

TEST(Scheduler, WaitingClaimsAreGrantedInArrivalOrder) {
  RecordProperty("contract", "D2 D4");
  for (const bool strict : {false, true}) {
    SchedulerFixture desk(1, {.strict = strict});
    const Ticket holder = desk.claim(1);
    const Ticket first = desk.claim(1);
    const Ticket second = desk.claim(1);
    EXPECT_EQ(desk.granted, Tickets{holder});
    EXPECT_EQ(desk.release(holder).granted, Tickets{first});
    EXPECT_EQ(desk.release(first).granted, Tickets{second});
  }
}

TEST(Scheduler, GpusFreedTogetherAreGrantedInQueueOrder) {
  SchedulerFixture desk(3);
  const Ticket all = desk.claim(3);
  const Ticket one = desk.claim(1);
  const Ticket two = desk.claim(1);
  const Ticket three = desk.claim(1);
  const Ticket four = desk.claim(1);
  EXPECT_EQ(desk.release(all).granted, (Tickets{one, two, three}));
  EXPECT_TRUE(desk.waits(four));
}

TEST(Scheduler, TryClaimTakesFreeGpuOrFailsImmediately) {
  RecordProperty("contract", "D3");
  SchedulerFixture desk(2);
  EXPECT_TRUE(desk.try_claim(1));
  EXPECT_TRUE(desk.try_claim(1));
  EXPECT_FALSE(desk.try_claim(1));
  EXPECT_TRUE(desk.core.waiting_claims().empty());
}

TEST(Scheduler, TryClaimDoesNotOvertakeWaitingClaim) {
  RecordProperty("contract", "D4 D6");
  SchedulerFixture desk(4);
  desk.claim(3);
  const Ticket wants_two = desk.claim(2);
  EXPECT_FALSE(desk.try_claim(1)) << "one is free, but somebody waits for it";
  desk.cancel(wants_two);
  EXPECT_TRUE(desk.try_claim(1));
}

TEST(Scheduler, TryClaimNeverPassesByTheTimeItSays) {
  SchedulerFixture desk(2);
  desk.claim(1, std::chrono::hours(1));
  desk.claim(2);
  EXPECT_FALSE(desk.core.try_claim(desk.want(1, std::chrono::minutes(1)), desk.now));
  EXPECT_TRUE(desk.held(desk.claim(1, std::chrono::minutes(1)))) << "who waits may";
}

TEST(Scheduler, TryClaimTakesGpuIneligibleForWaitingClaims) {
  SchedulerFixture desk(2);
  desk.claim(desk.only(slots({0})));
  desk.claim(desk.only(slots({0})));
  const auto ticket = desk.try_claim(1);
  ASSERT_TRUE(ticket);
  EXPECT_EQ(desk.gpus(*ticket), slots({1}));
}

TEST(Scheduler, TryClaimOfMoreThanThereIsIsNone) {
  SchedulerFixture desk(2);
  EXPECT_FALSE(desk.try_claim(3));
  EXPECT_FALSE(desk.try_claim(0));
}

TEST(Scheduler, ACancelledClaimIsPassedOverByEveryLaterGrant) {
  RecordProperty("contract", "D5");
  SchedulerFixture desk(1);
  const Ticket holder = desk.claim(1);
  const Ticket cancelled = desk.claim(1);
  const Ticket next = desk.claim(1);
  desk.cancel(cancelled);
  EXPECT_EQ(desk.core.waiting_claims().size(), 1U);
  EXPECT_EQ(desk.release(holder).granted, Tickets{next});
}

TEST(Scheduler, CancellingHeadGrantsBlockedClaim) {
  SchedulerFixture desk(2, {.strict = true});
  desk.claim(1);
  const Ticket first = desk.claim(2);
  const Ticket second = desk.claim(1);
  EXPECT_TRUE(desk.waits(second));
  EXPECT_EQ(desk.cancel(first).granted, Tickets{second});
}

TEST(Scheduler, InvalidTransitionLeavesStateUnchanged) {
  SchedulerFixture desk(1);
  const Ticket holder = desk.claim(1);
  const Scheduler before = desk.core;
  EXPECT_TRUE(desk.cancel(holder).empty());
  EXPECT_TRUE(desk.cancel(99).empty());
  EXPECT_TRUE(desk.release(99).empty());
  EXPECT_TRUE(desk.freed(holder).empty());
  EXPECT_EQ(desk.core, before);
}

TEST(Scheduler, AClaimGetsAllItsGpusOrNone) {
  SchedulerFixture desk(4, {.strict = true});
  const Ticket one = desk.claim(1);
  const Ticket three = desk.claim(3);
  const Ticket four = desk.claim(4);
  EXPECT_EQ(desk.gpus(three).count(), 3U);
  desk.release(three);
  EXPECT_TRUE(desk.gpus(four).none()) << "three of four is nothing";
  desk.release(one);
  EXPECT_EQ(desk.gpus(four).count(), 4U);
}

TEST(Scheduler, DrainingGpuIsGrantedOnlyAfterDrainFinishes) {
  SchedulerFixture desk(1, {.drains = true});
  const Ticket holder = desk.claim(1);
  const Ticket next = desk.claim(1);
  EXPECT_TRUE(desk.release(holder).granted.empty());
  EXPECT_EQ(desk.core.find(holder)->stage, Claim::Stage::draining);
  EXPECT_EQ(desk.core.holder(0), holder);
  EXPECT_EQ(desk.freed(holder).granted, Tickets{next});
  EXPECT_EQ(desk.core.holder(0), next);
}

TEST(Scheduler, FinishDrainBeforeReleaseIsIgnored) {
  SchedulerFixture desk(1, {.drains = true});
  const Ticket holder = desk.claim(1);
  desk.freed(holder);
  EXPECT_TRUE(desk.held(holder));
}

TEST(Scheduler, FencesRiseWithEveryGrantAndAreNeverUsedTwice) {
  SchedulerFixture desk(2);
  const Ticket first = desk.claim(1);
  const Fence fence = desk.core.find(first)->fence;
  const Ticket second = *desk.try_claim(1);
  EXPECT_EQ(desk.core.find(second)->fence, fence + 1);
  desk.release(first);
  desk.release(second);
  const Ticket third = desk.claim(1);
  EXPECT_EQ(desk.core.find(third)->fence, fence + 2);
  EXPECT_EQ(desk.core.last_fence(), fence + 2);
}

TEST(Scheduler, HeadDoesNotBlockClaimForAnotherModel) {
  SchedulerFixture desk(4);
  const GpuSet h200 = slots({0, 1});
  const GpuSet l4 = slots({2, 3});
  desk.claim(desk.only(h200, 2));
  const Ticket head = desk.claim(desk.only(h200, 2));
  const Ticket other = desk.claim(desk.only(l4));
  EXPECT_TRUE(desk.waits(head));
  EXPECT_TRUE(desk.held(other));
}

TEST(Scheduler, UnrestrictedClaimAvoidsGpuReservedForHead) {
  SchedulerFixture desk(3, {.strict = true});
  desk.claim(desk.only(slots({0})));
  desk.claim(desk.only(slots({0, 1}), 2));  // waits with 1
  const Ticket any = desk.claim(1);
  EXPECT_EQ(desk.gpus(any), slots({2}));
  EXPECT_TRUE(desk.waits(desk.claim(1)));
}

TEST(Scheduler, AGpuOutOfServiceIsNotHandedOut) {
  RecordProperty("contract", "D2");
  SchedulerFixture desk(1);
  desk.in_service(0, false);
  const Ticket waits = desk.claim(1);
  EXPECT_TRUE(desk.waits(waits));
  EXPECT_FALSE(desk.try_claim(1));
  EXPECT_EQ(desk.in_service(0, true).granted, Tickets{waits});
}

TEST(Scheduler, AGpuThatIsSquattedIsNotHandedOut) {
  SchedulerFixture desk(1);
  desk.squatted(0, true);
  const Ticket waits = desk.claim(1);
  EXPECT_TRUE(desk.waits(waits));
  EXPECT_FALSE(desk.try_claim(1));
  EXPECT_EQ(desk.squatted(0, false).granted, Tickets{waits});
}

TEST(Scheduler, OnlyGpusWithEnoughFreeMemoryAreHandedOut) {
  SchedulerFixture desk(2);
  desk.free_bytes(0, 10);
  desk.free_bytes(1, 20);
  GpuRequest large = desk.want(1);
  large.min_free_bytes = 15;
  EXPECT_EQ(desk.gpus(desk.claim(large)), slots({1}));
  const Ticket waits = desk.claim(large);
  EXPECT_TRUE(desk.waits(waits));
  EXPECT_EQ(desk.free_bytes(0, 15).granted, Tickets{waits});
}

TEST(Scheduler, MemoryThatIsNotKnownIsNotEnough) {
  SchedulerFixture desk(1);
  GpuRequest large = desk.want(1);
  large.min_free_bytes = 15;
  const Ticket waits = desk.claim(large);
  EXPECT_TRUE(desk.waits(waits));
  EXPECT_EQ(desk.free_bytes(0, 15).granted, Tickets{waits});
}

// The free memory was read while the holder had the GPU.
TEST(Scheduler, ReleaseResetsFreeMemoryReading) {
  SchedulerFixture desk(1);
  const Ticket holder = desk.claim(1);
  desk.free_bytes(0, 3);
  GpuRequest large = desk.want(1);
  large.min_free_bytes = 15;
  const Ticket first = desk.claim(large);
  desk.claim(1);
  EXPECT_EQ(desk.release(holder).granted, Tickets{first});
}

// Otherwise all of the GPUs could stand idle for days.
TEST(Scheduler, UnstartableClaimReservesNoGpus) {
  for (const bool strict : {false, true}) {
    SchedulerFixture desk(4, {.strict = strict});
    desk.in_service(3, false);
    const Ticket wants_all = desk.claim(4);
    const Ticket two = desk.claim(2);
    EXPECT_TRUE(desk.held(two));
    EXPECT_EQ(desk.core.find(wants_all)->overtakes, 0U);
    desk.in_service(3, true);
    EXPECT_EQ(desk.waits(desk.claim(1)), strict) << "now it could";
    EXPECT_EQ(desk.core.find(wants_all)->overtakes, strict ? 0U : 1U);
  }
}

TEST(Scheduler, ClaimWithRemovedGpuReservesNoGpus) {
  SchedulerFixture desk(2, {.strict = true});
  const Ticket holder = desk.claim(desk.only(slots({1})));
  const Ticket wants_both = desk.claim(2);
  const Ticket one = desk.claim(1);
  EXPECT_TRUE(desk.waits(one));
  desk.release(holder);
  desk.release(wants_both);
  EXPECT_TRUE(desk.held(one));
  const Ticket both = desk.claim(2);
  desk.in_service(1, false);
  desk.core.remove(1);
  EXPECT_EQ(desk.core.find(both)->request.eligible, slots({0}));
  const Ticket after = desk.claim(1);
  EXPECT_EQ(desk.release(one).granted, Tickets{after});
}

TEST(Scheduler, ReusedSlotIsIneligibleForEarlierClaim) {
  SchedulerFixture desk(2);
  const Ticket holder = desk.claim(desk.only(slots({0})));
  const Ticket waits = desk.claim(desk.only(slots({0, 1}), 2));
  desk.in_service(1, false);
  desk.core.remove(1);
  EXPECT_EQ(*desk.core.add(gpu_named("GPU-new")), 1U);
  desk.release(holder);
  EXPECT_TRUE(desk.waits(waits));
  desk.core.set_eligible(waits, slots({0, 1}));
  GpuAvailability cool;
  cool.temperature_c = 30;
  EXPECT_EQ(desk.set(0, cool).granted, Tickets{waits}) << "at the next event";
}

TEST(Scheduler, ClaimOnEmptySlotIgnoresGpuAddedLater) {
  SchedulerFixture desk(1);
  desk.claim(1);
  const Ticket waits = desk.claim(desk.only(slots({0, 1})));
  ASSERT_TRUE(desk.core.add(gpu_named("GPU-new")));
  EXPECT_TRUE(desk.core.open(desk.now).empty());
  EXPECT_TRUE(desk.waits(waits));
}

TEST(Scheduler, AGpuThatIsHeldIsNotRemoved) {
  SchedulerFixture desk(1);
  desk.claim(1);
  desk.core.remove(0);
  EXPECT_TRUE(desk.core.known_gpus()[0]);
}

TEST(Scheduler, APoolHasRoomFor256Gpus) {
  SchedulerFixture desk(kMaxGpus);
  const auto refused = desk.core.add(gpu_named("one more"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::busy);
  EXPECT_TRUE(desk.held(desk.claim(kMaxGpus)));
}

TEST(Scheduler, AUserHasNoMoreGpusThanOneMayHave) {
  SchedulerFixture desk(4, {.max_gpus_per_owner = 2});
  desk.claim(desk.of_user(1, 2));
  const Ticket third = desk.claim(desk.of_user(1, 1));
  EXPECT_TRUE(desk.waits(third));
  EXPECT_FALSE(desk.core.try_claim(desk.of_user(1, 1), desk.now));
}

TEST(Scheduler, ClaimOverQuotaDoesNotBlockOtherUsers) {
  SchedulerFixture desk(4, {.strict = true, .max_gpus_per_owner = 2});
  const Ticket two = desk.claim(desk.of_user(1, 2));
  const Ticket capped = desk.claim(desk.of_user(1, 2));
  EXPECT_TRUE(desk.held(desk.claim(desk.of_user(2, 1))));
  EXPECT_TRUE(desk.core.try_claim(desk.of_user(3, 1), desk.now));
  EXPECT_EQ(desk.release(two).granted, Tickets{capped});
}

TEST(Scheduler, AGpuThatDrainsCountsForItsUser) {
  SchedulerFixture desk(4, {.max_gpus_per_owner = 2, .drains = true});
  const Ticket two = desk.claim(desk.of_user(1, 2));
  desk.release(two);
  const Ticket next = desk.claim(desk.of_user(1, 1));
  EXPECT_TRUE(desk.waits(next));
  EXPECT_EQ(desk.freed(two).granted, Tickets{next});
}

// The later claim of a user brings the earlier one over the quota, which then keeps back nothing.
TEST(Scheduler, ClaimPushedOverQuotaUnblocksLaterClaimImmediately) {
  SchedulerFixture desk(4, {.max_gpus_per_owner = 4});
  GpuRequest timed = desk.of_user(9, 2);
  timed.max_hold_time = 10 * kMinute;
  desk.claim(timed);
  const Ticket four = desk.claim(desk.of_user(1, 4));
  const Ticket between = desk.claim(desk.of_user(3, 1));
  EXPECT_TRUE(desk.waits(between));
  GpuRequest passer = desk.of_user(1, 1);
  passer.max_hold_time = kMinute;
  const Ticket last = desk.claim(passer);
  EXPECT_TRUE(desk.held(last));
  EXPECT_TRUE(desk.held(between));
  EXPECT_TRUE(desk.waits(four));
}

TEST(Scheduler, UnsatisfiableRequestIsRefusedWithReason) {
  RecordProperty("contract", "D1");
  SchedulerFixture desk(2, {.max_gpus_per_owner = 1});
  EXPECT_FALSE(desk.core.check_satisfiable(desk.want(0)));
  EXPECT_EQ(desk.core.check_satisfiable(desk.want(3)).error().message,
            "3 GPUs requested, but this machine has 2");
  EXPECT_EQ(desk.core.check_satisfiable(desk.want(2)).error().message,
            "2 GPUs requested, but the limit per user is 1");
  EXPECT_TRUE(desk.core.check_satisfiable(desk.want(1)));
  EXPECT_EQ(Scheduler().check_satisfiable(desk.want(1)).error().message,
            "1 GPU requested, but this machine has 0");
}

TEST(Scheduler, AdoptionGrantsUsedButNotLeasedGpu) {
  SchedulerFixture desk(2);
  desk.squatted(1, true);
  const auto adopted = desk.core.adopt(1, slots({1}), desk.now);
  ASSERT_TRUE(adopted);
  EXPECT_EQ(desk.gpus(*adopted), slots({1}));
  EXPECT_FALSE(desk.core.adopt(1, slots({0, 1}), desk.now)) << "one of them is taken";
  EXPECT_FALSE(desk.core.adopt(1, {}, desk.now));
}

}  // namespace
}  // namespace gpuyard::lease
