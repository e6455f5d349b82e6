// A core that is made from what was kept.
#include <gtest/gtest.h>

#include "core/lease/scheduler.h"
#include "core/lease/scheduler_for_tests.h"

namespace gpuyard::lease {
namespace {

using Tickets = std::vector<Ticket>;

// Makes a core from everything that a journal keeps of another.
Core made_again(const Core& before) {
  Core again(before.fairness());
  again.close();
  for (const Gpu& gpu : before.gpus()) (void)*again.add(gpu);
  for (const auto& [ticket, claim] : before.waiting()) again.restore(claim);
  for (const auto& [ticket, claim] : before.live()) again.restore(claim);
  again.restore_counters(before.last_ticket(), before.last_fence());
  return again;
}

TEST(CoreRestored, StateEqualsOriginal) {
  Desk desk(3, {.most_gpus_of_owner = 2, .drains = true});
  desk.claim(desk.of_user(1, 2));
  desk.release(desk.claim(desk.of_user(2, 1)));
  desk.claim(desk.of_user(3, 2));
  desk.claim(desk.of_user(1, 1));
  Core again = made_again(desk.core);
  EXPECT_TRUE(again.open(desk.now).empty());
  EXPECT_EQ(again, desk.core);
}

TEST(CoreRestored, GrantsAreDeferredUntilOpen) {
  Desk desk(1);
  const Ticket holder = desk.claim(1);
  const Ticket waits = desk.claim(1);
  Core again = made_again(desk.core);
  EXPECT_TRUE(again.release(holder, desk.now).granted.empty());
  EXPECT_FALSE(again.try_claim(desk.want(1), desk.now));
  EXPECT_EQ(again.open(desk.now).granted, Tickets{waits});
}

TEST(CoreRestored, NeverUsesATicketOrAFenceTwice) {
  Desk desk(1);
  const Ticket over = desk.claim(1);
  desk.release(over);
  Core again = made_again(desk.core);
  again.open(desk.now);
  const auto ticket = again.try_claim(desk.want(1), desk.now);
  ASSERT_TRUE(ticket);
  EXPECT_GT(*ticket, over);
  EXPECT_EQ(again.find(*ticket)->fence, 2U);
}

TEST(CoreRestored, ThePassesOfTheFirstAreNotForgotten) {
  Desk desk(2);
  desk.claim(1);
  const Ticket head = desk.claim(2);
  for (unsigned i = 0; i < Core::kPasses; ++i) desk.release(desk.claim(1));
  desk.core = made_again(desk.core);
  desk.core.open(desk.now);
  EXPECT_EQ(desk.core.find(head)->passed, Core::kPasses);
  EXPECT_TRUE(desk.waits(desk.claim(1)));
}

TEST(CoreRestored, LeaseOverdueDuringDowntimeIsReportedOnOpen) {
  Desk desk(1);
  const Ticket holder = desk.claim(1, kMinute);
  Core again = made_again(desk.core);
  EXPECT_EQ(again.open(desk.now + kMinute).overdue, Tickets{holder});
}

TEST(CoreRestored, TheSameClaimTwiceIsTheSameAsOnce) {
  Desk desk(2, {.most_gpus_of_owner = 2});
  const Ticket holder = desk.claim(1);
  desk.core.restore(*desk.core.find(holder));
  desk.release(holder);
  EXPECT_TRUE(desk.held(desk.claim(2)));
}

}  // namespace
}  // namespace gpuyard::lease
