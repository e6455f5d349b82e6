// What those who wait are told: their place, why, and when.
#include <gtest/gtest.h>

#include "lease/core.h"
#include "lease/core_for_tests.h"

namespace gpuyard::lease {
namespace {

TEST(Outlook, PlacesAreCountedAmongThoseWhoWantTheSameGpus) {
  Desk desk(3);
  desk.claim(3);
  const Ticket first = desk.claim(desk.only(slots({0, 1})));
  const Ticket other = desk.claim(desk.only(slots({2})));
  const Ticket second = desk.claim(desk.only(slots({1})));
  const Ticket last = desk.claim(1);
  EXPECT_EQ(desk.outlook(first).position, 1U);
  EXPECT_EQ(desk.outlook(other).position, 1U);
  EXPECT_EQ(desk.outlook(second).position, 2U);
  EXPECT_EQ(desk.outlook(last).position, 4U);
}

TEST(Outlook, NoMoreAreToldThanWereAskedFor) {
  Desk desk(1);
  for (int i = 0; i < 4; ++i) desk.claim(1);
  EXPECT_EQ(desk.core.outlooks(desk.now, 2).size(), 2U);
}

TEST(Outlook, OthersHaveTheGpus) {
  Desk desk(1);
  desk.claim(1);
  EXPECT_EQ(desk.outlook(desk.claim(1)).why, Hindrance::busy);
}

TEST(Outlook, AFreeGpuIsKeptForSomebodyWhoCameBefore) {
  Desk desk(2, {.strict = true});
  desk.claim(1);
  const Ticket head = desk.claim(2);
  const Ticket behind = desk.claim(1);
  EXPECT_EQ(desk.outlook(head).why, Hindrance::busy);
  EXPECT_EQ(desk.outlook(behind).why, Hindrance::behind_earlier);
}

TEST(Outlook, ItsOwnerHasAsManyAsOneMayHave) {
  Desk desk(4, {.most_gpus_of_owner = 1});
  desk.claim(1);
  const Ticket waits = desk.claim(1);
  EXPECT_EQ(desk.outlook(waits).why, Hindrance::quota);
  EXPECT_EQ(desk.outlook(waits).expected, std::nullopt) << "three are free, which is no help";
}

TEST(Outlook, TooFewAreInService) {
  Desk desk(2);
  desk.in_service(0, false);
  EXPECT_EQ(desk.outlook(desk.claim(2)).why, Hindrance::out_of_service);
}

TEST(Outlook, SomebodyUsesThemOutsideAnyLease) {
  Desk desk(2);
  desk.squatted(0, true);
  const Ticket waits = desk.claim(2);
  EXPECT_EQ(desk.outlook(waits).why, Hindrance::squatted);
  EXPECT_EQ(desk.outlook(waits).expected, std::nullopt);
}

TEST(Outlook, TooLittleMemoryIsFree) {
  Desk desk(1);
  desk.free_bytes(0, 1);
  Terms large = desk.want(1);
  large.min_free_bytes = 2;
  const Ticket waits = desk.claim(large);
  EXPECT_EQ(desk.outlook(waits).why, Hindrance::memory);
  EXPECT_EQ(desk.outlook(waits).expected, std::nullopt);
}

TEST(Outlook, NobodyGetsAnythingNow) {
  Desk desk(1);
  desk.core.close();
  EXPECT_EQ(desk.outlook(desk.claim(1)).why, Hindrance::not_open);
}

TEST(Outlook, ItIsExpectedWhenThoseBeforeAreDoneAsTheySaid) {
  Desk desk(2);
  desk.claim(1, 10 * kMinute);
  desk.claim(1, 30 * kMinute);
  const Ticket one = desk.claim(1, 5 * kMinute);
  const Ticket two = desk.claim(2);
  const Ticket three = desk.claim(1);
  EXPECT_EQ(desk.outlook(one).expected, TimePoint{} + 10 * kMinute);
  EXPECT_EQ(desk.outlook(two).expected, TimePoint{} + 30 * kMinute);
  EXPECT_EQ(desk.outlook(three).expected, std::nullopt) << "the one before does not say";
}

TEST(Outlook, NothingIsExpectedOfThoseWhoDoNotSayOrAreOverdue) {
  Desk desk(1);
  const Ticket holder = desk.claim(1, kMinute);
  const Ticket waits = desk.claim(1);
  EXPECT_TRUE(desk.outlook(waits).expected);
  desk.pass(kMinute);
  EXPECT_EQ(desk.outlook(waits).expected, std::nullopt);
  desk.release(holder);
  EXPECT_EQ(desk.outlook(desk.claim(1)).expected, std::nullopt);
}

TEST(Outlook, WhatDrainsIsExpectedWhenItWasSaidUntilThatIsOver) {
  Desk desk(1, {.drains = true});
  desk.release(desk.claim(1, kMinute));
  const Ticket waits = desk.claim(1);
  EXPECT_EQ(desk.outlook(waits).expected, TimePoint{} + kMinute);
  EXPECT_TRUE(desk.pass(kMinute).overdue.empty()) << "he let go in time";
  EXPECT_EQ(desk.outlook(waits).expected, std::nullopt);
}

TEST(Outlook, AClaimThatCannotBeginTakesNothingFromThoseBehindIt) {
  Desk desk(2);
  desk.in_service(1, false);
  desk.claim(1, kMinute);
  desk.claim(2);
  const Ticket behind = desk.claim(1);
  EXPECT_EQ(desk.outlook(behind).expected, TimePoint{} + kMinute);
}

}  // namespace
}  // namespace gpuyard::lease
