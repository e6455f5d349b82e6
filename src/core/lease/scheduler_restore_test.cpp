// A core that is made from what was kept.
#include <gtest/gtest.h>

#include "core/lease/scheduler.h"
#include "core/lease/scheduler_fixture_for_tests.h"

namespace gpuyard::lease {
namespace {

using Tickets = std::vector<Ticket>;

// Makes a core from everything that a journal keeps of another.
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
  SchedulerFixture desk(3, {.max_gpus_per_owner = 2, .drains = true});
  desk.claim(desk.of_user(1, 2));
  desk.release(desk.claim(desk.of_user(2, 1)));
  desk.claim(desk.of_user(3, 2));
  desk.claim(desk.of_user(1, 1));
  Scheduler again = made_again(desk.core);
  EXPECT_TRUE(again.open(desk.now).empty());
  EXPECT_EQ(again, desk.core);
}

TEST(CoreRestored, GrantsAreDeferredUntilOpen) {
  SchedulerFixture desk(1);
  const Ticket holder = desk.claim(1);
  const Ticket waits = desk.claim(1);
  Scheduler again = made_again(desk.core);
  EXPECT_TRUE(again.release(holder, desk.now).granted.empty());
  EXPECT_FALSE(again.try_claim(desk.want(1), desk.now));
  EXPECT_EQ(again.open(desk.now).granted, Tickets{waits});
}

TEST(CoreRestored, NeverUsesATicketOrAFenceTwice) {
  SchedulerFixture desk(1);
  const Ticket over = desk.claim(1);
  desk.release(over);
  Scheduler again = made_again(desk.core);
  again.open(desk.now);
  const auto ticket = again.try_claim(desk.want(1), desk.now);
  ASSERT_TRUE(ticket);
  EXPECT_GT(*ticket, over);
  EXPECT_EQ(again.find(*ticket)->fence, 2U);
}

TEST(CoreRestored, ThePassesOfTheFirstAreNotForgotten) {
  SchedulerFixture desk(2);
  desk.claim(1);
  const Ticket head = desk.claim(2);
  for (unsigned i = 0; i < Scheduler::kMaxOvertakes; ++i) desk.release(desk.claim(1));
  desk.core = made_again(desk.core);
  desk.core.open(desk.now);
  EXPECT_EQ(desk.core.find(head)->overtakes, Scheduler::kMaxOvertakes);
  EXPECT_TRUE(desk.waits(desk.claim(1)));
}

TEST(CoreRestored, LeaseOverdueDuringDowntimeIsReportedOnOpen) {
  SchedulerFixture desk(1);
  const Ticket holder = desk.claim(1, kMinute);
  Scheduler again = made_again(desk.core);
  EXPECT_EQ(again.open(desk.now + kMinute).overdue, Tickets{holder});
}

TEST(CoreRestored, TheSameClaimTwiceIsTheSameAsOnce) {
  SchedulerFixture desk(2, {.max_gpus_per_owner = 2});
  const Ticket holder = desk.claim(1);
  desk.core.restore(*desk.core.find(holder));
  desk.release(holder);
  EXPECT_TRUE(desk.held(desk.claim(2)));
}

}  // namespace
}  // namespace gpuyard::lease
