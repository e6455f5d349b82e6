#include "core/processes/process_cache.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "core/processes/proc_tree_for_tests.h"

namespace gpuyard::processes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TimePoint at(int seconds) {
  return TimePoint(std::chrono::seconds(seconds));
}

ProcessMetadata facts(std::uint32_t pid, TimePoint started, std::string command = "python3") {
  ProcessMetadata facts;
  facts.pid = pid;
  facts.started = started;
  facts.uid = 1000;
  facts.command = std::move(command);
  facts.arguments = std::vector<std::string>{"python3"};
  return facts;
}

std::vector<ProcessLookup> of(ProcessMetadata facts) {
  std::vector<ProcessLookup> findings(1);
  findings.front().pid = facts.pid;
  findings.front().facts.emplace(std::move(facts));
  return findings;
}
std::vector<ProcessLookup> of(std::uint32_t pid, const Error& error) {
  return {{pid, error}};
}

TEST(ProcessCache, FactsAreReadOnceThenOnlyChecked) {
  ProcessCache owners;
  owners.update_lists({{7, at(100)}});
  ASSERT_EQ(owners.queries().size(), 1U);
  EXPECT_FALSE(owners.queries().front().known);
  EXPECT_EQ(owners.find(7).error().message, "not looked up yet");
  owners.update_facts(of(facts(7, at(50))));
  EXPECT_EQ((*owners.find(7))->command, "python3");
  EXPECT_TRUE(owners.queries().front().known->matches({at(50), "python3"}));
}

TEST(ProcessCache, AProcessThatLeavesTheListsIsForgotten) {
  ProcessCache owners;
  owners.update_lists({{7, at(100)}});
  owners.update_facts(of(facts(7, at(50))));
  const auto before = owners.revision();
  owners.update_lists({});
  EXPECT_GT(owners.revision(), before);
  EXPECT_FALSE(owners.find(7));
  EXPECT_THAT(owners.queries(), IsEmpty());
}

TEST(ProcessCache, ReusedPidGetsNewFacts) {
  ProcessCache owners;
  owners.update_lists({{7, at(100)}});
  owners.update_facts(of(facts(7, at(50), "old")));
  owners.set_user_name(1000, std::string("alice"));
  owners.update_lists({{7, at(105)}});
  owners.update_facts(of(facts(7, at(103), "new")));
  EXPECT_EQ((*owners.find(7))->command, "new");
  EXPECT_EQ((*owners.find(7))->started, at(103));
}

TEST(ProcessCache, ProcessStartedAfterListIsConflict) {
  ProcessCache owners;
  owners.update_lists({{7, at(100)}});
  owners.update_facts(of(facts(7, at(101), "stranger")));
  ASSERT_FALSE(owners.find(7));
  EXPECT_EQ(owners.find(7).error().code, Errc::conflict);
}

TEST(ProcessCache, EndedProcessKeepsFactsUntilNextList) {
  ProcessCache owners;
  owners.update_lists({{7, at(100)}});
  owners.update_facts(of(facts(7, at(50), "old")));
  owners.update_facts(of(7, {Errc::not_found, "gone"}));
  EXPECT_EQ((*owners.find(7))->command, "old");
  owners.update_facts(of(facts(7, at(101), "stranger")));
  EXPECT_EQ((*owners.find(7))->command, "old");
}

TEST(ProcessCache, InvisibleProcessKeepsErrorAndIsRequeried) {
  ProcessCache owners;
  owners.update_lists({{7, at(100)}});
  owners.update_facts(of(7, {Errc::not_found, "no such number here"}));
  EXPECT_EQ(owners.find(7).error().message, "no such number here");
  EXPECT_FALSE(owners.queries().front().known);
}

TEST(ProcessCache, FactsExpireAfterAMinute) {
  ProcessCache owners;
  owners.update_lists({{7, at(100)}});
  owners.update_facts(of(facts(7, at(50))));
  owners.update_lists({{7, at(159)}});
  EXPECT_TRUE(owners.queries().front().known);
  owners.update_lists({{7, at(160)}});
  EXPECT_FALSE(owners.queries().front().known);
}

TEST(ProcessCache, UnreadArgumentsAreQueriedAgain) {
  ProcessCache owners;
  owners.update_lists({{7, at(100)}});
  auto stuck = facts(7, at(50));
  stuck.arguments = Error{Errc::busy, "waits"};
  owners.update_facts(of(stuck));
  EXPECT_FALSE(owners.queries().front().known);
}

TEST(ProcessCache, RefreshKeepsNameOfSameUser) {
  ProcessCache owners;
  owners.update_lists({{7, at(100)}});
  owners.update_facts(of(facts(7, at(50))));
  EXPECT_THAT(owners.unnamed_users(), ElementsAre(1000U));
  owners.set_user_name(1000, std::string("alice"));
  EXPECT_THAT(owners.unnamed_users(), IsEmpty());
  auto again = facts(7, at(50));
  again.started_at += std::chrono::milliseconds(3);  // the wall clock was set
  owners.update_facts(of(again));
  EXPECT_EQ(*(*owners.find(7))->user, "alice");
  EXPECT_EQ((*owners.find(7))->started_at, WallTime{});
  auto another = facts(7, at(50));
  another.uid = 0;
  owners.update_facts(of(another));
  EXPECT_FALSE((*owners.find(7))->user);
}

TEST(ProcessCache, HaveALimit) {
  ProcessCache owners;
  ProcessCache::ListTimes listed;
  for (std::uint32_t pid = 1; pid <= ProcessCache::kMaxProcesses + 5; ++pid) listed[pid] = at(100);
  owners.update_lists(listed);
  EXPECT_EQ(owners.queries().size(), ProcessCache::kMaxProcesses);
  EXPECT_EQ(owners.find(ProcessCache::kMaxProcesses + 5).error().code, Errc::busy);
  listed.erase(1);
  owners.update_lists(listed);
  EXPECT_EQ(owners.queries().size(), ProcessCache::kMaxProcesses);
}

TEST(ProcessCache, LateResultIsDropped) {
  ProcessCache owners;
  owners.update_lists({{7, at(100)}});
  owners.update_lists({{8, at(105)}});
  owners.update_facts(of(facts(7, at(50))));
  EXPECT_FALSE(owners.find(7));
}

TEST(LookUpAll, ReadsAllFactsAtOnce) {
  const auto own = static_cast<std::uint32_t>(::getpid());
  ProcessCache cache;
  look_up_all(cache, ProcessReader(), {{own, BootClock::now()}}, PidOrigin::simulation);
  const auto facts = cache.find(own);
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ((*facts)->command, "core_test");
}

TEST(LookUpAll, KnownProcessIsOnlyChecked) {
  ProcTree proc;
  proc.put({.pid = 7, .start_ticks = 5, .uid = kAnna});
  const ProcessReader reader(proc.root(), maker_by_path);
  ProcessCache cache;
  look_up_all(cache, reader, {{7, at(100)}}, PidOrigin::simulation);
  proc.put({.pid = 7, .start_ticks = 5, .uid = kBen});
  look_up_all(cache, reader, {{7, at(101)}}, PidOrigin::simulation);
  EXPECT_EQ((*cache.find(7))->uid, kAnna);
  look_up_all(cache, reader, {{7, at(100) + ProcessCache::kMaxFactAge}}, PidOrigin::simulation);
  EXPECT_EQ((*cache.find(7))->uid, kBen);
}

}  // namespace
}  // namespace gpuyard::processes
