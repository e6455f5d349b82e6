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
    SchedulerFixture fixture(1, {.strict = strict});
    const Ticket holder = fixture.claim(1);
    const Ticket first = fixture.claim(1);
    const Ticket second = fixture.claim(1);
    EXPECT_EQ(fixture.granted, Tickets{holder});
    EXPECT_EQ(fixture.release(holder).granted, Tickets{first});
    EXPECT_EQ(fixture.release(first).granted, Tickets{second});
  }
}

TEST(Scheduler, GpusFreedTogetherAreGrantedInQueueOrder) {
  SchedulerFixture fixture(3);
  const Ticket all = fixture.claim(3);
  const Ticket one = fixture.claim(1);
  const Ticket two = fixture.claim(1);
  const Ticket three = fixture.claim(1);
  const Ticket four = fixture.claim(1);
  EXPECT_EQ(fixture.release(all).granted, (Tickets{one, two, three}));
  EXPECT_TRUE(fixture.waits(four));
}

TEST(Scheduler, TryClaimTakesFreeGpuOrFailsImmediately) {
  RecordProperty("contract", "D3");
  SchedulerFixture fixture(2);
  EXPECT_TRUE(fixture.try_claim(1));
  EXPECT_TRUE(fixture.try_claim(1));
  EXPECT_FALSE(fixture.try_claim(1));
  EXPECT_TRUE(fixture.scheduler.waiting_claims().empty());
}

TEST(Scheduler, TryClaimDoesNotOvertakeWaitingClaim) {
  RecordProperty("contract", "D4 D6");
  SchedulerFixture fixture(4);
  fixture.claim(3);
  const Ticket wants_two = fixture.claim(2);
  EXPECT_FALSE(fixture.try_claim(1)) << "one is free, but somebody waits for it";
  fixture.cancel(wants_two);
  EXPECT_TRUE(fixture.try_claim(1));
}

TEST(Scheduler, CancelledClaimIsNeverGranted) {
  RecordProperty("contract", "D5");
  SchedulerFixture fixture(1);
  const Ticket holder = fixture.claim(1);
  const Ticket cancelled = fixture.claim(1);
  const Ticket next = fixture.claim(1);
  fixture.cancel(cancelled);
  EXPECT_EQ(fixture.scheduler.waiting_claims().size(), 1U);
  EXPECT_EQ(fixture.release(holder).granted, Tickets{next});
}

TEST(Scheduler, CancellingHeadGrantsBlockedClaim) {
  SchedulerFixture fixture(2, {.strict = true});
  fixture.claim(1);
  const Ticket first = fixture.claim(2);
  const Ticket second = fixture.claim(1);
  EXPECT_TRUE(fixture.waits(second));
  EXPECT_EQ(fixture.cancel(first).granted, Tickets{second});
}

TEST(Scheduler, InvalidTransitionLeavesStateUnchanged) {
  SchedulerFixture fixture(1);
  const Ticket holder = fixture.claim(1);
  const Scheduler before = fixture.scheduler;
  EXPECT_TRUE(fixture.cancel(holder).empty());
  EXPECT_TRUE(fixture.cancel(99).empty());
  EXPECT_TRUE(fixture.release(99).empty());
  EXPECT_TRUE(fixture.freed(holder).empty());
  EXPECT_EQ(fixture.scheduler, before);
}

TEST(Scheduler, AClaimGetsAllItsGpusOrNone) {
  SchedulerFixture fixture(4, {.strict = true});
  const Ticket one = fixture.claim(1);
  const Ticket three = fixture.claim(3);
  const Ticket four = fixture.claim(4);
  EXPECT_EQ(fixture.gpus(three).count(), 3U);
  fixture.release(three);
  EXPECT_TRUE(fixture.gpus(four).none()) << "three of four is nothing";
  fixture.release(one);
  EXPECT_EQ(fixture.gpus(four).count(), 4U);
}

TEST(Scheduler, DrainingGpuIsGrantedOnlyAfterDrainFinishes) {
  SchedulerFixture fixture(1, {.drains = true});
  const Ticket holder = fixture.claim(1);
  const Ticket next = fixture.claim(1);
  EXPECT_TRUE(fixture.release(holder).granted.empty());
  EXPECT_EQ(fixture.scheduler.find(holder)->stage, Claim::Stage::draining);
  EXPECT_EQ(fixture.scheduler.allocations().holder(0), holder);
  EXPECT_EQ(fixture.freed(holder).granted, Tickets{next});
  EXPECT_EQ(fixture.scheduler.allocations().holder(0), next);
}

TEST(Scheduler, FencesRiseWithEveryGrantWithoutReuse) {
  SchedulerFixture fixture(2);
  const Ticket first = fixture.claim(1);
  const Fence fence = fixture.scheduler.find(first)->fence;
  const Ticket second = *fixture.try_claim(1);
  EXPECT_EQ(fixture.scheduler.find(second)->fence, fence + 1);
  fixture.release(first);
  fixture.release(second);
  const Ticket third = fixture.claim(1);
  EXPECT_EQ(fixture.scheduler.find(third)->fence, fence + 2);
  EXPECT_EQ(fixture.scheduler.last_fence(), fence + 2);
}

TEST(Scheduler, HeadDoesNotBlockClaimForAnotherModel) {
  SchedulerFixture fixture(4);
  const GpuSet h200 = slots({0, 1});
  const GpuSet l4 = slots({2, 3});
  fixture.claim(fixture.only(h200, 2));
  const Ticket head = fixture.claim(fixture.only(h200, 2));
  const Ticket other = fixture.claim(fixture.only(l4));
  EXPECT_TRUE(fixture.waits(head));
  EXPECT_TRUE(fixture.held(other));
}

TEST(Scheduler, UnrestrictedClaimAvoidsGpuReservedForHead) {
  SchedulerFixture fixture(3, {.strict = true});
  fixture.claim(fixture.only(slots({0})));
  fixture.claim(fixture.only(slots({0, 1}), 2));  // waits with 1
  const Ticket any = fixture.claim(1);
  EXPECT_EQ(fixture.gpus(any), slots({2}));
  EXPECT_TRUE(fixture.waits(fixture.claim(1)));
}

TEST(Scheduler, GpuOutOfServiceIsNotGranted) {
  RecordProperty("contract", "D2");
  SchedulerFixture fixture(1);
  fixture.in_service(0, false);
  const Ticket waits = fixture.claim(1);
  EXPECT_TRUE(fixture.waits(waits));
  EXPECT_FALSE(fixture.try_claim(1));
  EXPECT_EQ(fixture.in_service(0, true).granted, Tickets{waits});
}

TEST(Scheduler, GpuInUnleasedUseIsNotGranted) {
  SchedulerFixture fixture(1);
  fixture.squatted(0, true);
  const Ticket waits = fixture.claim(1);
  EXPECT_TRUE(fixture.waits(waits));
  EXPECT_FALSE(fixture.try_claim(1));
  EXPECT_EQ(fixture.squatted(0, false).granted, Tickets{waits});
}

TEST(Scheduler, OnlyGpusWithEnoughFreeMemoryAreGranted) {
  SchedulerFixture fixture(2);
  fixture.free_bytes(0, 10);
  fixture.free_bytes(1, 20);
  GpuRequest large = fixture.want(1);
  large.min_free_bytes = 15;
  EXPECT_EQ(fixture.gpus(fixture.claim(large)), slots({1}));
  const Ticket waits = fixture.claim(large);
  EXPECT_TRUE(fixture.waits(waits));
  EXPECT_EQ(fixture.free_bytes(0, 15).granted, Tickets{waits});
}

TEST(Scheduler, UnknownMemoryIsNotEnough) {
  SchedulerFixture fixture(1);
  GpuRequest large = fixture.want(1);
  large.min_free_bytes = 15;
  const Ticket waits = fixture.claim(large);
  EXPECT_TRUE(fixture.waits(waits));
  EXPECT_EQ(fixture.free_bytes(0, 15).granted, Tickets{waits});
}

// The free memory was read while the holder had the GPU.
TEST(Scheduler, ReleaseResetsFreeMemoryReading) {
  SchedulerFixture fixture(1);
  const Ticket holder = fixture.claim(1);
  fixture.free_bytes(0, 3);
  GpuRequest large = fixture.want(1);
  large.min_free_bytes = 15;
  const Ticket first = fixture.claim(large);
  fixture.claim(1);
  EXPECT_EQ(fixture.release(holder).granted, Tickets{first});
}

// Otherwise all of the GPUs could stand idle for days.
TEST(Scheduler, UnstartableClaimReservesNoGpus) {
  for (const bool strict : {false, true}) {
    SchedulerFixture fixture(4, {.strict = strict});
    fixture.in_service(3, false);
    const Ticket wants_all = fixture.claim(4);
    const Ticket two = fixture.claim(2);
    EXPECT_TRUE(fixture.held(two));
    EXPECT_EQ(fixture.scheduler.find(wants_all)->overtakes, 0U);
    fixture.in_service(3, true);
    EXPECT_EQ(fixture.waits(fixture.claim(1)), strict) << "now it could";
    EXPECT_EQ(fixture.scheduler.find(wants_all)->overtakes, strict ? 0U : 1U);
  }
}

TEST(Scheduler, ClaimWithRemovedGpuReservesNoGpus) {
  SchedulerFixture fixture(2, {.strict = true});
  const Ticket holder = fixture.claim(fixture.only(slots({1})));
  const Ticket wants_both = fixture.claim(2);
  const Ticket one = fixture.claim(1);
  EXPECT_TRUE(fixture.waits(one));
  fixture.release(holder);
  fixture.release(wants_both);
  EXPECT_TRUE(fixture.held(one));
  const Ticket both = fixture.claim(2);
  fixture.in_service(1, false);
  fixture.scheduler.remove(1);
  EXPECT_EQ(fixture.scheduler.find(both)->request.eligible, slots({0}));
  const Ticket after = fixture.claim(1);
  EXPECT_EQ(fixture.release(one).granted, Tickets{after});
}

TEST(Scheduler, ReusedSlotIsIneligibleForEarlierClaim) {
  SchedulerFixture fixture(2);
  const Ticket holder = fixture.claim(fixture.only(slots({0})));
  const Ticket waits = fixture.claim(fixture.only(slots({0, 1}), 2));
  fixture.in_service(1, false);
  fixture.scheduler.remove(1);
  EXPECT_EQ(*fixture.scheduler.add(gpu_named("GPU-new")), 1U);
  fixture.release(holder);
  EXPECT_TRUE(fixture.waits(waits));
  fixture.scheduler.set_eligible(waits, slots({0, 1}));
  GpuAvailability cool;
  cool.temperature_c = 30;
  EXPECT_EQ(fixture.set(0, cool).granted, Tickets{waits}) << "at the next event";
}

TEST(Scheduler, ClaimOnEmptySlotIgnoresGpuAddedLater) {
  SchedulerFixture fixture(1);
  fixture.claim(1);
  const Ticket waits = fixture.claim(fixture.only(slots({0, 1})));
  ASSERT_TRUE(fixture.scheduler.add(gpu_named("GPU-new")));
  EXPECT_TRUE(fixture.scheduler.open(fixture.now).empty());
  EXPECT_TRUE(fixture.waits(waits));
}

TEST(Scheduler, HeldGpuIsNotRemoved) {
  SchedulerFixture fixture(1);
  fixture.claim(1);
  fixture.scheduler.remove(0);
  EXPECT_TRUE(fixture.scheduler.allocations().known()[0]);
}

TEST(Scheduler, APoolHasRoomFor256Gpus) {
  SchedulerFixture fixture(kMaxGpus);
  const auto refused = fixture.scheduler.add(gpu_named("one more"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::busy);
  EXPECT_TRUE(fixture.held(fixture.claim(kMaxGpus)));
}

TEST(Scheduler, QuotaLimitsGpusOfUser) {
  SchedulerFixture fixture(4, {.max_gpus_per_owner = 2});
  fixture.claim(fixture.of_user(1, 2));
  const Ticket third = fixture.claim(fixture.of_user(1, 1));
  EXPECT_TRUE(fixture.waits(third));
  EXPECT_FALSE(fixture.scheduler.try_claim(fixture.of_user(1, 1), fixture.now));
}

TEST(Scheduler, ClaimOverQuotaDoesNotBlockOtherUsers) {
  SchedulerFixture fixture(4, {.strict = true, .max_gpus_per_owner = 2});
  const Ticket two = fixture.claim(fixture.of_user(1, 2));
  const Ticket capped = fixture.claim(fixture.of_user(1, 2));
  EXPECT_TRUE(fixture.held(fixture.claim(fixture.of_user(2, 1))));
  EXPECT_TRUE(fixture.scheduler.try_claim(fixture.of_user(3, 1), fixture.now));
  EXPECT_EQ(fixture.release(two).granted, Tickets{capped});
}

// The later claim of a user brings the earlier one over the quota, which then reserves nothing.
TEST(Scheduler, ClaimPushedOverQuotaUnblocksLaterClaimImmediately) {
  SchedulerFixture fixture(4, {.max_gpus_per_owner = 4});
  GpuRequest timed = fixture.of_user(9, 2);
  timed.max_hold_time = 10 * kMinute;
  fixture.claim(timed);
  const Ticket four = fixture.claim(fixture.of_user(1, 4));
  const Ticket between = fixture.claim(fixture.of_user(3, 1));
  EXPECT_TRUE(fixture.waits(between));
  GpuRequest passer = fixture.of_user(1, 1);
  passer.max_hold_time = kMinute;
  const Ticket last = fixture.claim(passer);
  EXPECT_TRUE(fixture.held(last));
  EXPECT_TRUE(fixture.held(between));
  EXPECT_TRUE(fixture.waits(four));
}

TEST(Scheduler, UnsatisfiableRequestIsRefusedWithReason) {
  RecordProperty("contract", "D1");
  SchedulerFixture fixture(2, {.max_gpus_per_owner = 1});
  EXPECT_FALSE(fixture.scheduler.check_satisfiable(fixture.want(0)));
  EXPECT_EQ(fixture.scheduler.check_satisfiable(fixture.want(3)).error().message,
            "3 GPUs requested, but this machine has 2");
  EXPECT_EQ(fixture.scheduler.check_satisfiable(fixture.want(2)).error().message,
            "2 GPUs requested, but the limit per user is 1");
  EXPECT_TRUE(fixture.scheduler.check_satisfiable(fixture.want(1)));
  EXPECT_EQ(Scheduler().check_satisfiable(fixture.want(1)).error().message,
            "1 GPU requested, but this machine has 0");
}

TEST(Scheduler, AdoptionGrantsUsedButNotLeasedGpu) {
  SchedulerFixture fixture(2);
  fixture.squatted(1, true);
  const auto adopted = fixture.scheduler.adopt(1, slots({1}), fixture.now);
  ASSERT_TRUE(adopted);
  EXPECT_EQ(fixture.gpus(*adopted), slots({1}));
  EXPECT_FALSE(fixture.scheduler.adopt(1, slots({0, 1}), fixture.now)) << "one of them is taken";
  EXPECT_FALSE(fixture.scheduler.adopt(1, {}, fixture.now));
}

}  // namespace
}  // namespace gpuyard::lease
