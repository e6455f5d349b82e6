// A scheduler that is restored.
#include <gtest/gtest.h>

#include "core/lease/scheduler.h"
#include "core/lease/scheduler_fixture_for_tests.h"

namespace gpuyard::lease {
namespace {

using Tickets = std::vector<Ticket>;

// Makes a scheduler from everything that a storage keeps of another.
Scheduler made_again(const Scheduler& before) {
  Scheduler again(before.fairness());
  again.close();
  for (const Gpu& gpu : before.gpus()) (void)*again.add(gpu);
  for (const auto& [ticket, claim] : before.waiting_claims()) again.restore(claim);
  for (const auto& [ticket, claim] : before.live_claims()) again.restore(claim);
  again.restore_counters(before.last_ticket(), before.last_fence());
  return again;
}

TEST(CoreRestored, StateEqualsOriginal) {
  SchedulerFixture fixture(3, {.max_gpus_per_owner = 2, .drains = true});
  fixture.claim(fixture.of_user(1, 2));
  fixture.release(fixture.claim(fixture.of_user(2, 1)));
  fixture.claim(fixture.of_user(3, 2));
  fixture.claim(fixture.of_user(1, 1));
  Scheduler again = made_again(fixture.core);
  EXPECT_TRUE(again.open(fixture.now).empty());
  EXPECT_EQ(again, fixture.core);
}

TEST(CoreRestored, GrantsAreDeferredUntilOpen) {
  SchedulerFixture fixture(1);
  const Ticket holder = fixture.claim(1);
  const Ticket waits = fixture.claim(1);
  Scheduler again = made_again(fixture.core);
  EXPECT_TRUE(again.release(holder, fixture.now).granted.empty());
  EXPECT_FALSE(again.try_claim(fixture.want(1), fixture.now));
  EXPECT_EQ(again.open(fixture.now).granted, Tickets{waits});
}

TEST(CoreRestored, NeverUsesATicketOrAFenceTwice) {
  SchedulerFixture fixture(1);
  const Ticket over = fixture.claim(1);
  fixture.release(over);
  Scheduler again = made_again(fixture.core);
  again.open(fixture.now);
  const auto ticket = again.try_claim(fixture.want(1), fixture.now);
  ASSERT_TRUE(ticket);
  EXPECT_GT(*ticket, over);
  EXPECT_EQ(again.find(*ticket)->fence, 2U);
}

TEST(CoreRestored, ThePassesOfTheFirstAreNotForgotten) {
  SchedulerFixture fixture(2);
  fixture.claim(1);
  const Ticket head = fixture.claim(2);
  for (unsigned i = 0; i < Scheduler::kMaxOvertakes; ++i) fixture.release(fixture.claim(1));
  fixture.core = made_again(fixture.core);
  fixture.core.open(fixture.now);
  EXPECT_EQ(fixture.core.find(head)->overtakes, Scheduler::kMaxOvertakes);
  EXPECT_TRUE(fixture.waits(fixture.claim(1)));
}

TEST(CoreRestored, LeaseOverdueDuringDowntimeIsReportedOnOpen) {
  SchedulerFixture fixture(1);
  const Ticket holder = fixture.claim(1, kMinute);
  Scheduler again = made_again(fixture.core);
  EXPECT_EQ(again.open(fixture.now + kMinute).overdue, Tickets{holder});
}

TEST(CoreRestored, TheSameClaimTwiceIsTheSameAsOnce) {
  SchedulerFixture fixture(2, {.max_gpus_per_owner = 2});
  const Ticket holder = fixture.claim(1);
  fixture.core.restore(*fixture.core.find(holder));
  fixture.release(holder);
  EXPECT_TRUE(fixture.held(fixture.claim(2)));
}

}  // namespace
}  // namespace gpuyard::lease
