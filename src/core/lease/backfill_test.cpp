// The claims that may overtake the first waiting one, and how often.
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/lease/scheduler.h"
#include "core/lease/scheduler_fixture_for_tests.h"

namespace gpuyard::lease {
namespace {

using Tickets = std::vector<Ticket>;

// Two GPUs: one is held for `holds`, and the first waiting claim requests both.
struct BackfillFixture : SchedulerFixture {
  explicit BackfillFixture(std::optional<Duration> holds, Fairness fairness = {})
      : SchedulerFixture(2, fairness) {
    holder = claim(terms_of(7, 1, holds));
    head = claim(2);
  }
  GpuRequest terms_of(std::uint32_t owner, unsigned count, std::optional<Duration> longest) const {
    GpuRequest request = want(count, longest);
    request.owner = owner;
    return request;
  }
  Ticket holder = 0;
  Ticket head = 0;
};

TEST(Backfill, ClaimEndingBeforeHeadStartOvertakes) {
  BackfillFixture crowd(10 * kMinute);
  EXPECT_TRUE(crowd.held(crowd.claim(1, 10 * kMinute)));
  EXPECT_EQ(crowd.scheduler.find(crowd.head)->overtakes, 0U) << "it costs the first nothing";
}

TEST(Backfill, ClaimEndingAfterHeadStartWaits) {
  BackfillFixture crowd(10 * kMinute);
  EXPECT_TRUE(crowd.waits(crowd.claim(1, 11 * kMinute)));
  EXPECT_TRUE(crowd.waits(crowd.claim(1))) << "nor who does not say";
}

TEST(Backfill, OvertakenHeadStartsOnTime) {
  BackfillFixture crowd(10 * kMinute);
  const Ticket passer = crowd.claim(1, 10 * kMinute);
  crowd.now += 10 * kMinute;
  crowd.release(passer);
  EXPECT_EQ(crowd.release(crowd.holder).granted, Tickets{crowd.head});
}

// The head waits for the three GPUs in service, so its start is the end of the longest hold.
TEST(Backfill, GpuOutOfServiceDoesNotAdvanceHeadStart) {
  SchedulerFixture fixture(4);
  const Ticket broken = fixture.claim(1, 10 * kMinute);
  fixture.claim(1, 20 * kMinute);
  fixture.claim(1, 30 * kMinute);
  for_each_slot(fixture.scheduler.find(broken)->gpus,
                [&](Slot slot) { fixture.in_service(slot, false); });
  EXPECT_TRUE(fixture.waits(fixture.claim(3)));
  EXPECT_TRUE(fixture.held(fixture.claim(1, 25 * kMinute)));
}

TEST(Backfill, UnknownHoldTimeAllowsSixteenOvertakes) {
  BackfillFixture crowd(std::nullopt);
  for (unsigned i = 1; i <= Scheduler::kMaxOvertakes; ++i) {
    const Ticket passer = crowd.claim(1);
    ASSERT_TRUE(crowd.held(passer)) << i;
    EXPECT_EQ(crowd.scheduler.find(crowd.head)->overtakes, i);
    crowd.release(passer);
  }
  EXPECT_TRUE(crowd.waits(crowd.claim(1)));
  EXPECT_TRUE(crowd.waits(crowd.claim(1, kMinute)));
  EXPECT_EQ(crowd.release(crowd.holder).granted, Tickets{crowd.head});
}

TEST(Backfill, OvertakeIsReportedInEffects) {
  BackfillFixture crowd(std::nullopt);
  Effects effects;
  crowd.scheduler.claim(crowd.want(1), crowd.now, effects);
  EXPECT_EQ(effects.overtaken, Tickets{crowd.head});
}

// A claim of one GPU allows no counted overtakes, so none may overtake it while its start is
// unknown.
TEST(Backfill, SingleGpuClaimIsNotOvertaken) {
  BackfillFixture crowd(10 * kMinute);
  const Ticket single = crowd.claim(crowd.only(slots({1})));
  EXPECT_TRUE(crowd.waits(single)) << "the first is to begin in ten minutes";
  EXPECT_TRUE(crowd.waits(crowd.claim(1, kMinute))) << "who could pass the first, but not this one";
  crowd.cancel(crowd.head);
  EXPECT_TRUE(crowd.held(single));
}

TEST(Backfill, StrictModeAllowsNoOvertake) {
  BackfillFixture timed(10 * kMinute, {.strict = true});
  EXPECT_TRUE(timed.waits(timed.claim(1, kMinute)));
  BackfillFixture untimed(std::nullopt, {.strict = true});
  EXPECT_TRUE(untimed.waits(untimed.claim(1)));
}

TEST(Backfill, GpuUselessToHeadIsNoOvertake) {
  SchedulerFixture fixture(3, {.strict = true});
  fixture.claim(fixture.only(slots({0})));
  const Ticket head = fixture.claim(fixture.only(slots({0, 1}), 2));
  EXPECT_TRUE(fixture.held(fixture.claim(fixture.only(slots({2})))));
  EXPECT_EQ(fixture.scheduler.find(head)->overtakes, 0U);
}

// Overtakes are few, so none is spent without need.
TEST(Backfill, UnwantedGpuIsPreferredToOvertaking) {
  SchedulerFixture fixture(3);
  fixture.claim(fixture.only(slots({0})));
  const Ticket head = fixture.claim(fixture.only(slots({0, 1}), 2));
  const Ticket any = fixture.claim(1);
  EXPECT_EQ(fixture.gpus(any), slots({2}));
  EXPECT_EQ(fixture.scheduler.find(head)->overtakes, 0U);
}

TEST(Backfill, HoldBeyondMaxIsReportedOnce) {
  BackfillFixture crowd(10 * kMinute);
  EXPECT_TRUE(crowd.pass(9 * kMinute).overdue.empty());
  EXPECT_EQ(crowd.pass(kMinute).overdue, Tickets{crowd.holder});
  EXPECT_TRUE(crowd.pass(kMinute).overdue.empty()) << "once";
  EXPECT_TRUE(crowd.held(crowd.holder)) << "and nothing is taken away from him";
}

TEST(Backfill, OverdueHolderAllowsCountedOvertakes) {
  BackfillFixture crowd(10 * kMinute);
  const Ticket waits = crowd.claim(1);
  EXPECT_TRUE(crowd.waits(waits));
  EXPECT_EQ(crowd.pass(10 * kMinute).granted, Tickets{waits});
  EXPECT_EQ(crowd.scheduler.find(crowd.head)->overtakes, 1U);
}

TEST(Backfill, OverdueOwnerCannotOvertakeForADay) {
  BackfillFixture crowd(std::chrono::hours(30));
  SchedulerFixture& fixture = crowd;
  const Ticket late = fixture.claim(crowd.terms_of(1, 1, kMinute));
  fixture.pass(kMinute);
  fixture.release(late);
  const Ticket mistrusted = fixture.claim(crowd.terms_of(1, 1, kMinute));
  const Ticket trusted = fixture.claim(crowd.terms_of(2, 1, kMinute));
  EXPECT_TRUE(fixture.waits(mistrusted));
  EXPECT_TRUE(fixture.held(trusted));
  fixture.release(trusted);
  EXPECT_TRUE(fixture.pass(Scheduler::kOverduePenalty - kMinute).granted.empty());
  EXPECT_EQ(fixture.pass(kMinute).granted, Tickets{mistrusted});
}

// Otherwise a claim that comes in the second in which a lease drains could keep the first waiting
// for days.
TEST(Backfill, DrainingLeaseKeepsHeadReservation) {
  BackfillFixture crowd(10 * kMinute, {.drains = true});
  crowd.release(crowd.holder);
  EXPECT_TRUE(crowd.waits(crowd.claim(1)));
  EXPECT_TRUE(crowd.held(crowd.claim(1, kMinute)));
}

TEST(Backfill, OverdueDrainAllowsCountedOvertakes) {
  BackfillFixture crowd(10 * kMinute, {.drains = true});
  crowd.release(crowd.holder);
  const Ticket waits = crowd.claim(1);
  EXPECT_EQ(crowd.pass(10 * kMinute).granted, Tickets{waits});
  EXPECT_EQ(crowd.scheduler.find(crowd.head)->overtakes, 1U);
}

TEST(Backfill, OwnerOfOverdueDrainMayStillOvertake) {
  BackfillFixture crowd(std::chrono::hours(30), {.drains = true});
  const Ticket late = crowd.claim(crowd.terms_of(1, 1, kMinute));
  crowd.release(late);
  crowd.pass(kMinute);
  crowd.freed(late);
  EXPECT_TRUE(crowd.held(crowd.claim(crowd.terms_of(1, 1, kMinute))));
}

TEST(Backfill, OverduePenaltySurvivesRestore) {
  SchedulerFixture fixture(1);
  const Ticket late = fixture.claim(1, kMinute);
  fixture.pass(kMinute);
  Scheduler again;
  ASSERT_TRUE(again.add(gpu_named("GPU-0")));
  again.restore(*fixture.scheduler.find(late));
  again.restore_counters(fixture.scheduler.last_ticket(), fixture.scheduler.last_fence());
  EXPECT_EQ(again, fixture.scheduler);
}

TEST(Backfill, HoldTimeOverflowIsUnbounded) {
  BackfillFixture crowd(Duration::max());
  EXPECT_TRUE(crowd.held(crowd.claim(1, Duration::max()))) << "both end with time itself";
}

// Returns a claim on GPU 0 and on another.
GpuRequest two_of(const SchedulerFixture& fixture, Slot other, std::uint32_t owner) {
  GpuRequest request = fixture.only(slots({0, other}), 2);
  request.owner = owner;
  return request;
}

// Only 64 classes are protected side by side; GPUs that a further class could use go to no later
// claim.
TEST(Backfill, SixtyFifthClassReservesItsGpus) {
  SchedulerFixture fixture(80);
  const Ticket all = fixture.claim(fixture.only(slots({0})));
  for (Slot slot = 1; slot <= Scheduler::kMaxHeads; ++slot) {
    EXPECT_TRUE(
        fixture.waits(fixture.claim(two_of(fixture, slot, static_cast<std::uint32_t>(slot)))));
  }
  EXPECT_TRUE(fixture.held(fixture.claim(fixture.only(slots({1}))))) << "64 classes may be passed";
  EXPECT_TRUE(fixture.waits(fixture.claim(two_of(fixture, 71, 71))));
  const Ticket behind = fixture.claim(fixture.only(slots({71})));
  EXPECT_TRUE(fixture.waits(behind));
  EXPECT_EQ(fixture.queue_position(behind).reason, WaitReason::behind_earlier);
  EXPECT_TRUE(fixture.held(fixture.claim(fixture.only(slots({72})))))
      << "nobody before it could use it";
  fixture.release(all);
  EXPECT_TRUE(fixture.held(behind));
}

TEST(Backfill, NinthClassOfOneUserIsUnprotected) {
  SchedulerFixture fixture(20);
  fixture.claim(fixture.only(slots({0})));
  constexpr std::uint32_t kGreedy = 7;
  for (Slot slot = 1; slot <= Scheduler::kMaxHeadsPerOwner; ++slot)
    fixture.claim(two_of(fixture, slot, kGreedy));
  const Ticket ninth = fixture.claim(two_of(fixture, 9, kGreedy));
  for (unsigned i = 0; i < 2 * Scheduler::kMaxOvertakes; ++i) {
    const Ticket other = fixture.claim(fixture.only(slots({9})));
    EXPECT_TRUE(fixture.held(other));
    fixture.release(other);
  }
  EXPECT_EQ(fixture.scheduler.find(ninth)->overtakes, 0U);
}

RC_GTEST_PROP(Backfill, DisjointClaimIsGrantedAtOnce, (unsigned seed)) {
  constexpr unsigned kGpus = 70;
  SchedulerFixture fixture(kGpus);
  std::mt19937 chance(seed);
  for (int i = 0; i < 160; ++i) {
    const Slot first = chance() % kGpus;
    const Slot second = chance() % kGpus;
    GpuRequest request = fixture.only(slots({first, second}), first == second ? 1 : 2);
    request.owner = static_cast<std::uint32_t>(chance() % 100);
    GpuSet others;
    for (const auto& [ticket, claim] : fixture.scheduler.waiting_claims())
      others |= claim.request.eligible;
    const bool free = !fixture.scheduler.allocations().holder(first) &&
                      !fixture.scheduler.allocations().holder(second);
    const Ticket ticket = fixture.claim(request);
    if (free && (request.eligible & others).none()) RC_ASSERT(fixture.held(ticket));
  }
}

}  // namespace
}  // namespace gpuyard::lease
