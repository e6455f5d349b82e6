#include "processes/owners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuyard::processes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TimePoint at(int seconds) {
  return TimePoint(std::chrono::seconds(seconds));
}

ProcessFacts facts(std::uint32_t pid, TimePoint started, std::string command = "python3") {
  ProcessFacts facts;
  facts.pid = pid;
  facts.started = started;
  facts.uid = 1000;
  facts.command = std::move(command);
  facts.arguments = std::vector<std::string>{"python3"};
  return facts;
}

std::vector<Finding> of(ProcessFacts facts) {
  std::vector<Finding> findings(1);
  findings.front().pid = facts.pid;
  findings.front().facts.emplace(std::move(facts));
  return findings;
}
std::vector<Finding> of(std::uint32_t pid, const Error& error) {
  return {{pid, error}};
}

TEST(Owners, AreAskedForOnceAndThenGlancedAt) {
  Owners owners;
  owners.listed({{7, at(100)}});
  ASSERT_EQ(owners.questions().size(), 1U);
  EXPECT_FALSE(owners.questions().front().known);
  EXPECT_EQ(owners.find(7).error().message, "not looked up yet");
  owners.found(of(facts(7, at(50))));
  EXPECT_EQ((*owners.find(7))->command, "python3");
  EXPECT_EQ(owners.questions().front().known, (Glance{at(50), "python3"}));
}

TEST(Owners, AProcessThatLeavesTheListsIsForgotten) {
  Owners owners;
  owners.listed({{7, at(100)}});
  owners.found(of(facts(7, at(50))));
  const auto before = owners.revision();
  owners.listed({});
  EXPECT_GT(owners.revision(), before);
  EXPECT_FALSE(owners.find(7));
  EXPECT_THAT(owners.questions(), IsEmpty());
}

TEST(Owners, ANumberGivenAnewHasNewFacts) {
  Owners owners;
  owners.listed({{7, at(100)}});
  owners.found(of(facts(7, at(50), "old")));
  owners.named(1000, std::string("alice"));
  owners.listed({{7, at(105)}});
  owners.found(of(facts(7, at(103), "new")));
  EXPECT_EQ((*owners.find(7))->command, "new");
  EXPECT_EQ((*owners.find(7))->started, at(103));
}

TEST(Owners, WhoStartedAfterTheListWasMadeIsNotInIt) {
  Owners owners;
  owners.listed({{7, at(100)}});
  owners.found(of(facts(7, at(101), "stranger")));
  ASSERT_FALSE(owners.find(7));
  EXPECT_EQ(owners.find(7).error().code, Errc::conflict);
}

TEST(Owners, AnEndedProcessIsWhoItWasUntilANewerListComes) {
  Owners owners;
  owners.listed({{7, at(100)}});
  owners.found(of(facts(7, at(50), "old")));
  owners.found(of(7, {Errc::not_found, "gone"}));
  EXPECT_EQ((*owners.find(7))->command, "old");
  owners.found(of(facts(7, at(101), "stranger")));
  EXPECT_EQ((*owners.find(7))->command, "old");
}

TEST(Owners, TheInvisibleAreUnknownWithAReasonAndAskedForAgain) {
  Owners owners;
  owners.listed({{7, at(100)}});
  owners.found(of(7, {Errc::not_found, "no such number here"}));
  EXPECT_EQ(owners.find(7).error().message, "no such number here");
  EXPECT_FALSE(owners.questions().front().known);
}

TEST(Owners, EverythingIsAskedAnewAfterAWhile) {
  Owners owners;
  owners.listed({{7, at(100)}});
  owners.found(of(facts(7, at(50))));
  owners.listed({{7, at(159)}});
  EXPECT_TRUE(owners.questions().front().known);
  owners.listed({{7, at(160)}});
  EXPECT_FALSE(owners.questions().front().known);
}

TEST(Owners, ArgumentsThatCouldNotBeReadAreAskedForAgain) {
  Owners owners;
  owners.listed({{7, at(100)}});
  auto stuck = facts(7, at(50));
  stuck.arguments = Error{Errc::busy, "waits"};
  owners.found(of(stuck));
  EXPECT_FALSE(owners.questions().front().known);
}

TEST(Owners, ANameStaysWhenEverythingIsAskedAnew) {
  Owners owners;
  owners.listed({{7, at(100)}});
  owners.found(of(facts(7, at(50))));
  EXPECT_THAT(owners.nameless_users(), ElementsAre(1000U));
  owners.named(1000, std::string("alice"));
  EXPECT_THAT(owners.nameless_users(), IsEmpty());
  auto again = facts(7, at(50));
  again.started_at += std::chrono::milliseconds(3);  // the clock of people was set
  owners.found(of(again));
  EXPECT_EQ(*(*owners.find(7))->user, "alice");
  EXPECT_EQ((*owners.find(7))->started_at, WallTime{});
  auto another = facts(7, at(50));
  another.uid = 0;
  owners.found(of(another));
  EXPECT_FALSE((*owners.find(7))->user);
}

TEST(Owners, HaveALimit) {
  Owners owners;
  Owners::Listed listed;
  for (std::uint32_t pid = 1; pid <= Owners::kMost + 5; ++pid) listed[pid] = at(100);
  owners.listed(listed);
  EXPECT_EQ(owners.questions().size(), Owners::kMost);
  EXPECT_EQ(owners.find(Owners::kMost + 5).error().code, Errc::busy);
  listed.erase(1);
  owners.listed(listed);
  EXPECT_EQ(owners.questions().size(), Owners::kMost);
}

TEST(Owners, WhatIsFoundOutTooLateIsDropped) {
  Owners owners;
  owners.listed({{7, at(100)}});
  owners.listed({{8, at(105)}});
  owners.found(of(facts(7, at(50))));
  EXPECT_FALSE(owners.find(7));
}

}  // namespace
}  // namespace gpuyard::processes
