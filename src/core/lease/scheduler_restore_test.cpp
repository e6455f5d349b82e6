// A scheduler that is restored.
#include <gtest/gtest.h>

#include "core/lease/scheduler.h"
#include "core/lease/scheduler_fixture_for_tests.h"

namespace gpuyard::lease {
namespace {

using Tickets = std::vector<Ticket>;

// Makes a scheduler from everything that a storage keeps of another.
Scheduler restored_copy_of(const Scheduler& before) {
  Scheduler again(before.fairness());
  again.close();
  for (const Gpu& gpu : before.allocations().gpus()) (void)*again.add(gpu);
  for (const auto& [ticket, claim] : before.waiting_claims()) again.restore(claim);
  for (const auto& [ticket, claim] : before.allocations().claims()) again.restore(claim);
  again.restore_counters(before.last_ticket(), before.last_fence());
  return again;
}

TEST(SchedulerRestore, StateEqualsOriginal) {
  SchedulerFixture fixture(3, {.max_gpus_per_owner = 2, .drains = true});
  fixture.claim(fixture.of_user(1, 2));
  fixture.release(fixture.claim(fixture.of_user(2, 1)));
  fixture.claim(fixture.of_user(3, 2));
  fixture.claim(fixture.of_user(1, 1));
  Scheduler again = restored_copy_of(fixture.scheduler);
  EXPECT_TRUE(again.open(fixture.now).empty());
  EXPECT_EQ(again, fixture.scheduler);
}

TEST(SchedulerRestore, GrantsAreDeferredUntilOpen) {
  SchedulerFixture fixture(1);
  const Ticket holder = fixture.claim(1);
  const Ticket waits = fixture.claim(1);
  Scheduler again = restored_copy_of(fixture.scheduler);
  EXPECT_TRUE(again.release(holder, fixture.now).granted.empty());
  EXPECT_FALSE(again.try_claim(fixture.want(1), fixture.now));
  EXPECT_EQ(again.open(fixture.now).granted, Tickets{waits});
}

TEST(SchedulerRestore, TicketsAndFencesAreNeverReused) {
  SchedulerFixture fixture(1);
  const Ticket over = fixture.claim(1);
  fixture.release(over);
  Scheduler again = restored_copy_of(fixture.scheduler);
  again.open(fixture.now);
  const auto ticket = again.try_claim(fixture.want(1), fixture.now);
  ASSERT_TRUE(ticket);
  EXPECT_GT(*ticket, over);
  EXPECT_EQ(again.find(*ticket)->fence, 2U);
}

TEST(SchedulerRestore, OvertakesOfHeadSurviveRestore) {
  SchedulerFixture fixture(2);
  fixture.claim(1);
  const Ticket head = fixture.claim(2);
  for (unsigned i = 0; i < Scheduler::kMaxOvertakes; ++i) fixture.release(fixture.claim(1));
  fixture.scheduler = restored_copy_of(fixture.scheduler);
  fixture.scheduler.open(fixture.now);
  EXPECT_EQ(fixture.scheduler.find(head)->overtakes, Scheduler::kMaxOvertakes);
  EXPECT_TRUE(fixture.waits(fixture.claim(1)));
}

TEST(SchedulerRestore, LeaseOverdueDuringDowntimeIsReportedOnOpen) {
  SchedulerFixture fixture(1);
  const Ticket holder = fixture.claim(1, kMinute);
  Scheduler again = restored_copy_of(fixture.scheduler);
  EXPECT_EQ(again.open(fixture.now + kMinute).overdue, Tickets{holder});
}

TEST(SchedulerRestore, RestoringClaimTwiceEqualsOnce) {
  SchedulerFixture fixture(2, {.max_gpus_per_owner = 2});
  const Ticket holder = fixture.claim(1);
  fixture.scheduler.restore(*fixture.scheduler.find(holder));
  fixture.release(holder);
  EXPECT_TRUE(fixture.held(fixture.claim(2)));
}

}  // namespace
}  // namespace gpuyard::lease
