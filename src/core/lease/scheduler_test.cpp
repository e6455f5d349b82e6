// Order and placement: which claim is served, and what keeps one waiting.
#include "core/lease/scheduler.h"

#include <gtest/gtest.h>

#include "core/lease/scheduler_for_tests.h"

namespace gpuyard::lease {
namespace {

using Tickets = std::vector<Ticket>;

TEST(Core, WaitingClaimsAreGrantedInArrivalOrder) {
  RecordProperty("contract", "D2 D4");
  for (const bool strict : {false, true}) {
    Desk desk(1, {.strict = strict});
    const Ticket holder = desk.claim(1);
    const Ticket first = desk.claim(1);
    const Ticket second = desk.claim(1);
    EXPECT_EQ(desk.granted, Tickets{holder});
    EXPECT_EQ(desk.release(holder).granted, Tickets{first});
    EXPECT_EQ(desk.release(first).granted, Tickets{second});
  }
}

TEST(Core, GpusFreedTogetherAreGrantedInQueueOrder) {
  Desk desk(3);
  const Ticket all = desk.claim(3);
  const Ticket one = desk.claim(1);
  const Ticket two = desk.claim(1);
  const Ticket three = desk.claim(1);
  const Ticket four = desk.claim(1);
  EXPECT_EQ(desk.release(all).granted, (Tickets{one, two, three}));
  EXPECT_TRUE(desk.waits(four));
}

TEST(Core, TryClaimTakesFreeGpuOrFailsImmediately) {
  RecordProperty("contract", "D3");
  Desk desk(2);
  EXPECT_TRUE(desk.try_claim(1));
  EXPECT_TRUE(desk.try_claim(1));
  EXPECT_FALSE(desk.try_claim(1));
  EXPECT_TRUE(desk.core.waiting().empty());
}

TEST(Core, TryClaimDoesNotOvertakeWaitingClaim) {
  RecordProperty("contract", "D4 D6");
  Desk desk(4);
  desk.claim(3);
  const Ticket wants_two = desk.claim(2);
  EXPECT_FALSE(desk.try_claim(1)) << "one is free, but somebody waits for it";
  desk.cancel(wants_two);
  EXPECT_TRUE(desk.try_claim(1));
}

TEST(Core, TryClaimNeverPassesByTheTimeItSays) {
  Desk desk(2);
  desk.claim(1, std::chrono::hours(1));
  desk.claim(2);
  EXPECT_FALSE(desk.core.try_claim(desk.want(1, std::chrono::minutes(1)), desk.now));
  EXPECT_TRUE(desk.held(desk.claim(1, std::chrono::minutes(1)))) << "who waits may";
}

TEST(Core, TryClaimTakesGpuIneligibleForWaitingClaims) {
  Desk desk(2);
  desk.claim(desk.only(slots({0})));
  desk.claim(desk.only(slots({0})));
  const auto ticket = desk.try_claim(1);
  ASSERT_TRUE(ticket);
  EXPECT_EQ(desk.gpus(*ticket), slots({1}));
}

TEST(Core, TryClaimOfMoreThanThereIsIsNone) {
  Desk desk(2);
  EXPECT_FALSE(desk.try_claim(3));
  EXPECT_FALSE(desk.try_claim(0));
}

TEST(Core, ACancelledClaimIsPassedOverByEveryLaterGrant) {
  RecordProperty("contract", "D5");
  Desk desk(1);
  const Ticket holder = desk.claim(1);
  const Ticket cancelled = desk.claim(1);
  const Ticket next = desk.claim(1);
  desk.cancel(cancelled);
  EXPECT_EQ(desk.core.waiting().size(), 1U);
  EXPECT_EQ(desk.release(holder).granted, Tickets{next});
}

TEST(Core, CancellingHeadGrantsBlockedClaim) {
  Desk desk(2, {.strict = true});
  desk.claim(1);
  const Ticket first = desk.claim(2);
  const Ticket second = desk.claim(1);
  EXPECT_TRUE(desk.waits(second));
  EXPECT_EQ(desk.cancel(first).granted, Tickets{second});
}

TEST(Core, InvalidTransitionLeavesStateUnchanged) {
  Desk desk(1);
  const Ticket holder = desk.claim(1);
  const Core before = desk.core;
  EXPECT_TRUE(desk.cancel(holder).empty());
  EXPECT_TRUE(desk.cancel(99).empty());
  EXPECT_TRUE(desk.release(99).empty());
  EXPECT_TRUE(desk.freed(holder).empty());
  EXPECT_EQ(desk.core, before);
}

TEST(Core, AClaimGetsAllItsGpusOrNone) {
  Desk desk(4, {.strict = true});
  const Ticket one = desk.claim(1);
  const Ticket three = desk.claim(3);
  const Ticket four = desk.claim(4);
  EXPECT_EQ(desk.gpus(three).count(), 3U);
  desk.release(three);
  EXPECT_TRUE(desk.gpus(four).none()) << "three of four is nothing";
  desk.release(one);
  EXPECT_EQ(desk.gpus(four).count(), 4U);
}

TEST(Core, DrainingGpuIsGrantedOnlyAfterDrainFinishes) {
  Desk desk(1, {.drains = true});
  const Ticket holder = desk.claim(1);
  const Ticket next = desk.claim(1);
  EXPECT_TRUE(desk.release(holder).granted.empty());
  EXPECT_EQ(desk.core.find(holder)->stage, Claim::Stage::draining);
  EXPECT_EQ(desk.core.holder(0), holder);
  EXPECT_EQ(desk.freed(holder).granted, Tickets{next});
  EXPECT_EQ(desk.core.holder(0), next);
}

TEST(Core, FinishDrainBeforeReleaseIsIgnored) {
  Desk desk(1, {.drains = true});
  const Ticket holder = desk.claim(1);
  desk.freed(holder);
  EXPECT_TRUE(desk.held(holder));
}

TEST(Core, FencesRiseWithEveryGrantAndAreNeverUsedTwice) {
  Desk desk(2);
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

TEST(Core, HeadDoesNotBlockClaimForAnotherModel) {
  Desk desk(4);
  const GpuSet h200 = slots({0, 1});
  const GpuSet l4 = slots({2, 3});
  desk.claim(desk.only(h200, 2));
  const Ticket head = desk.claim(desk.only(h200, 2));
  const Ticket other = desk.claim(desk.only(l4));
  EXPECT_TRUE(desk.waits(head));
  EXPECT_TRUE(desk.held(other));
}

TEST(Core, UnrestrictedClaimAvoidsGpuReservedForHead) {
  Desk desk(3, {.strict = true});
  desk.claim(desk.only(slots({0})));
  desk.claim(desk.only(slots({0, 1}), 2));  // waits with 1
  const Ticket any = desk.claim(1);
  EXPECT_EQ(desk.gpus(any), slots({2}));
  EXPECT_TRUE(desk.waits(desk.claim(1)));
}

TEST(Core, AGpuOutOfServiceIsNotHandedOut) {
  RecordProperty("contract", "D2");
  Desk desk(1);
  desk.in_service(0, false);
  const Ticket waits = desk.claim(1);
  EXPECT_TRUE(desk.waits(waits));
  EXPECT_FALSE(desk.try_claim(1));
  EXPECT_EQ(desk.in_service(0, true).granted, Tickets{waits});
}

TEST(Core, AGpuThatIsSquattedIsNotHandedOut) {
  Desk desk(1);
  desk.squatted(0, true);
  const Ticket waits = desk.claim(1);
  EXPECT_TRUE(desk.waits(waits));
  EXPECT_FALSE(desk.try_claim(1));
  EXPECT_EQ(desk.squatted(0, false).granted, Tickets{waits});
}

TEST(Core, OnlyGpusWithEnoughFreeMemoryAreHandedOut) {
  Desk desk(2);
  desk.free_bytes(0, 10);
  desk.free_bytes(1, 20);
  Terms large = desk.want(1);
  large.min_free_bytes = 15;
  EXPECT_EQ(desk.gpus(desk.claim(large)), slots({1}));
  const Ticket waits = desk.claim(large);
  EXPECT_TRUE(desk.waits(waits));
  EXPECT_EQ(desk.free_bytes(0, 15).granted, Tickets{waits});
}

TEST(Core, MemoryThatIsNotKnownIsNotEnough) {
  Desk desk(1);
  Terms large = desk.want(1);
  large.min_free_bytes = 15;
  const Ticket waits = desk.claim(large);
  EXPECT_TRUE(desk.waits(waits));
  EXPECT_EQ(desk.free_bytes(0, 15).granted, Tickets{waits});
}

// The free memory was read while the holder had the GPU.
TEST(Core, ReleaseResetsFreeMemoryReading) {
  Desk desk(1);
  const Ticket holder = desk.claim(1);
  desk.free_bytes(0, 3);
  Terms large = desk.want(1);
  large.min_free_bytes = 15;
  const Ticket first = desk.claim(large);
  desk.claim(1);
  EXPECT_EQ(desk.release(holder).granted, Tickets{first});
}

// Otherwise all of the GPUs could stand idle for days.
TEST(Core, UnstartableClaimReservesNoGpus) {
  for (const bool strict : {false, true}) {
    Desk desk(4, {.strict = strict});
    desk.in_service(3, false);
    const Ticket wants_all = desk.claim(4);
    const Ticket two = desk.claim(2);
    EXPECT_TRUE(desk.held(two));
    EXPECT_EQ(desk.core.find(wants_all)->passed, 0U);
    desk.in_service(3, true);
    EXPECT_EQ(desk.waits(desk.claim(1)), strict) << "now it could";
    EXPECT_EQ(desk.core.find(wants_all)->passed, strict ? 0U : 1U);
  }
}

TEST(Core, ClaimWithRemovedGpuReservesNoGpus) {
  Desk desk(2, {.strict = true});
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
  EXPECT_EQ(desk.core.find(both)->terms.eligible, slots({0}));
  const Ticket after = desk.claim(1);
  EXPECT_EQ(desk.release(one).granted, Tickets{after});
}

TEST(Core, ReusedSlotIsIneligibleForEarlierClaim) {
  Desk desk(2);
  const Ticket holder = desk.claim(desk.only(slots({0})));
  const Ticket waits = desk.claim(desk.only(slots({0, 1}), 2));
  desk.in_service(1, false);
  desk.core.remove(1);
  EXPECT_EQ(*desk.core.add(gpu_named("GPU-new")), 1U);
  desk.release(holder);
  EXPECT_TRUE(desk.waits(waits));
  desk.core.reach(waits, slots({0, 1}));
  Condition cool;
  cool.temperature_c = 30;
  EXPECT_EQ(desk.set(0, cool).granted, Tickets{waits}) << "at the next event";
}

TEST(Core, ClaimOnEmptySlotIgnoresGpuAddedLater) {
  Desk desk(1);
  desk.claim(1);
  const Ticket waits = desk.claim(desk.only(slots({0, 1})));
  ASSERT_TRUE(desk.core.add(gpu_named("GPU-new")));
  EXPECT_TRUE(desk.core.open(desk.now).empty());
  EXPECT_TRUE(desk.waits(waits));
}

TEST(Core, AGpuThatIsHeldIsNotRemoved) {
  Desk desk(1);
  desk.claim(1);
  desk.core.remove(0);
  EXPECT_TRUE(desk.core.known()[0]);
}

TEST(Core, APoolHasRoomFor256Gpus) {
  Desk desk(kMostGpus);
  const auto refused = desk.core.add(gpu_named("one more"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::busy);
  EXPECT_TRUE(desk.held(desk.claim(kMostGpus)));
}

TEST(Core, AUserHasNoMoreGpusThanOneMayHave) {
  Desk desk(4, {.most_gpus_of_owner = 2});
  desk.claim(desk.of_user(1, 2));
  const Ticket third = desk.claim(desk.of_user(1, 1));
  EXPECT_TRUE(desk.waits(third));
  EXPECT_FALSE(desk.core.try_claim(desk.of_user(1, 1), desk.now));
}

TEST(Core, ClaimOverQuotaDoesNotBlockOtherUsers) {
  Desk desk(4, {.strict = true, .most_gpus_of_owner = 2});
  const Ticket two = desk.claim(desk.of_user(1, 2));
  const Ticket capped = desk.claim(desk.of_user(1, 2));
  EXPECT_TRUE(desk.held(desk.claim(desk.of_user(2, 1))));
  EXPECT_TRUE(desk.core.try_claim(desk.of_user(3, 1), desk.now));
  EXPECT_EQ(desk.release(two).granted, Tickets{capped});
}

TEST(Core, AGpuThatDrainsCountsForItsUser) {
  Desk desk(4, {.most_gpus_of_owner = 2, .drains = true});
  const Ticket two = desk.claim(desk.of_user(1, 2));
  desk.release(two);
  const Ticket next = desk.claim(desk.of_user(1, 1));
  EXPECT_TRUE(desk.waits(next));
  EXPECT_EQ(desk.freed(two).granted, Tickets{next});
}

// The later claim of a user brings the earlier one over the quota, which then keeps back nothing.
TEST(Core, ClaimPushedOverQuotaUnblocksLaterClaimImmediately) {
  Desk desk(4, {.most_gpus_of_owner = 4});
  Terms timed = desk.of_user(9, 2);
  timed.longest = 10 * kMinute;
  desk.claim(timed);
  const Ticket four = desk.claim(desk.of_user(1, 4));
  const Ticket between = desk.claim(desk.of_user(3, 1));
  EXPECT_TRUE(desk.waits(between));
  Terms passer = desk.of_user(1, 1);
  passer.longest = kMinute;
  const Ticket last = desk.claim(passer);
  EXPECT_TRUE(desk.held(last));
  EXPECT_TRUE(desk.held(between));
  EXPECT_TRUE(desk.waits(four));
}

TEST(Core, UnsatisfiableRequestIsRefusedWithReason) {
  RecordProperty("contract", "D1");
  Desk desk(2, {.most_gpus_of_owner = 1});
  EXPECT_FALSE(desk.core.possible(desk.want(0)));
  EXPECT_EQ(desk.core.possible(desk.want(3)).error().message,
            "3 GPUs requested, but this machine has 2");
  EXPECT_EQ(desk.core.possible(desk.want(2)).error().message,
            "2 GPUs requested, but the limit per user is 1");
  EXPECT_TRUE(desk.core.possible(desk.want(1)));
  EXPECT_EQ(Core().possible(desk.want(1)).error().message,
            "1 GPU requested, but this machine has 0");
}

TEST(Core, AdoptionGrantsUsedButNotLeasedGpu) {
  Desk desk(2);
  desk.squatted(1, true);
  const auto adopted = desk.core.adopt(1, slots({1}), desk.now);
  ASSERT_TRUE(adopted);
  EXPECT_EQ(desk.gpus(*adopted), slots({1}));
  EXPECT_FALSE(desk.core.adopt(1, slots({0, 1}), desk.now)) << "one of them is taken";
  EXPECT_FALSE(desk.core.adopt(1, {}, desk.now));
}

}  // namespace
}  // namespace gpuyard::lease
