#include "daemon/change_audit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpuyard::daemon {
namespace {

using driver::ChangeLine;
using driver::ChangeStep;
using protocol::AuditLine;

constexpr const char* kLater = "2026-11-27T13:00:00.000Z";

// A log and an audit of the same changes, which a test then makes differ.
class ChangeAuditTest : public ::testing::Test {
 protected:
  ChangeAuditTest() { start(); }

  static std::string at(int second) {
    return fmt::format("2026-11-27T12:{:02}:{:02}.000Z", second / 60, second % 60);
  }
  ChangeLine& log(ChangeStep step) {
    ChangeLine line;
    line.number = log_.lines.size() + 1;
    line.at = at(second_);
    line.step = step;
    line.boot = "boot";
    log_.lines.push_back(line);
    return log_.lines.back();
  }
  void start() { log(ChangeStep::start); }
  void set(std::int64_t watts, ChangeStep end = ChangeStep::done) {
    ChangeLine& line = log(ChangeStep::change);
    line.gpu = "GPU-a";
    line.setting = SettingKind::power_limit;
    line.value = SettingValue{watts * 1000, watts * 1000};
    const std::uint64_t number = line.number;
    log(end).of = number;
  }
  void enter(std::int64_t before, std::int64_t after,
             const std::string& action = "set power_limit to", const std::string& by = "uid 1000",
             const std::string& outcome = "applied") {
    AuditLine line;
    line.number = static_cast<std::int64_t>(audit_.size()) + 1;
    line.at = *from_rfc3339(at(second_));
    line.by = by;
    line.action = action;
    line.gpu = "GPU-a";
    line.before = fmt::format("{} W", before);
    line.after = fmt::format("{} W", after);
    line.outcome = outcome;
    audit_.push_back(line);
  }
  void change(std::int64_t before, std::int64_t after) {
    set(after);
    enter(before, after);
    ++second_;
  }
  std::vector<std::string> differences() const {
    return compare_changes(log_, audit_, kLater).differences;
  }

  int second_ = 0;
  driver::LoggedChanges log_;
  std::vector<AuditLine> audit_;
};

TEST_F(ChangeAuditTest, EqualBooksHaveNoDifference) {
  change(700, 300);
  change(300, 250);
  change(250, 700);
  const auto result = compare_changes(log_, audit_, kLater);
  EXPECT_EQ(result.differences, std::vector<std::string>());
  EXPECT_EQ(result.changes, 3U);
}

// With so many users the audit would be allowed to have one entry of each.
TEST_F(ChangeAuditTest, ForgedUsersHideNoRecentChange) {
  for (int i = 0; i < 10; ++i) change(700, 300 + i);
  audit_.clear();
  second_ = 3000;
  for (int i = 0; i < 10'000; ++i) enter(1, 1, "note", fmt::format("uid {}", 5000 + i), "done");
  const auto result = compare_changes(log_, audit_, kLater);
  EXPECT_EQ(result.changes, 10U);
  EXPECT_EQ(result.differences.size(), 10U);
}

TEST_F(ChangeAuditTest, AnEntryThatWasRemovedIsNamed) {
  change(700, 300);
  change(300, 250);
  change(250, 700);
  audit_.erase(audit_.begin() + 1);
  EXPECT_EQ(differences(), std::vector<std::string>{
                               "2026-11-27T12:00:01.000Z: GPU GPU-a: power_limit was set to 250 W "
                               "(change 4), of which the audit has no entry"});
}

TEST_F(ChangeAuditTest, AnEntryWithAnotherValueIsNamed) {
  change(700, 300);
  change(300, 250);
  audit_[1].after = "280 W";
  EXPECT_EQ(differences().size(), 2U) << "the change and the entry";
}

TEST_F(ChangeAuditTest, AnEntryWithoutAChangeIsNamed) {
  change(700, 300);
  enter(300, 200);
  EXPECT_EQ(differences(),
            std::vector<std::string>{
                "2026-11-27T12:00:01.000Z: GPU GPU-a: audit entry 2 (set power_limit "
                "to by uid 1000), of which the setter has no change"});
}

TEST_F(ChangeAuditTest, AuditEntriesWithoutEffectNeedNoWrite) {
  change(700, 300);
  enter(300, 300, "restore power_limit", "uid 1000", "restored");
  enter(300, 200, "set power_limit to", "uid 1000", "failed");
  enter(300, 200, "set power_limit to", "uid 1000", "refused");
  EXPECT_EQ(differences(), std::vector<std::string>());
}

TEST_F(ChangeAuditTest, AChangeThatFailedNeedsNoEntry) {
  set(300, ChangeStep::failed);
  EXPECT_EQ(differences(), std::vector<std::string>());
}

TEST_F(ChangeAuditTest, OnlyLastChangeMayLackResult) {
  log_.lines.pop_back();
  start();
  set(300);
  log_.lines.pop_back();
  EXPECT_EQ(differences(), std::vector<std::string>());
  change(700, 310);
  EXPECT_EQ(differences().size(), 1U);
}

TEST_F(ChangeAuditTest, ReconcileEntryCoversWriteOfKilledDaemon) {
  change(700, 300);
  set(250);
  second_ = 120;
  enter(300, 250, "reconcile power_limit", "gpuyard");
  start();
  change(250, 700);
  EXPECT_EQ(differences(), std::vector<std::string>());
}

TEST_F(ChangeAuditTest, KillExcusesOnlyLastMoment) {
  change(700, 300);
  set(280);
  second_ += 5;
  set(260);
  set(250);
  second_ = 120;
  enter(300, 250, "reconcile power_limit", "gpuyard");
  start();
  EXPECT_EQ(differences(), std::vector<std::string>{
                               "2026-11-27T12:00:01.000Z: GPU GPU-a: power_limit was set to 280 W "
                               "(change 4), of which the audit has no entry"});
}

TEST_F(ChangeAuditTest, RestoringReconcileExplainsWriteOfKilledDaemon) {
  set(250);
  second_ = 120;
  start();
  set(700);
  enter(250, 700, "reconcile power_limit", "gpuyard", "restored");
  EXPECT_EQ(differences(), std::vector<std::string>());
}

TEST_F(ChangeAuditTest, EntryRemovedBeforeRestartIsReported) {
  change(700, 300);
  audit_.clear();
  second_ = 120;
  start();
  change(300, 700);
  EXPECT_EQ(differences().size(), 1U);
}

TEST_F(ChangeAuditTest, RestoreMissingFromFullLogIsExcused) {
  change(700, 300);
  enter(300, 700, "restore power_limit", "uid 1000", "restored");
  enter(700, 200);
  ++second_;
  ChangeLine& missed = log(ChangeStep::missed);
  missed.missed_since = at(1);
  missed.of = 1;
  const auto result = compare_changes(log_, audit_, kLater);
  EXPECT_EQ(result.excused, 1U);
  EXPECT_EQ(result.differences.size(), 1U) << "a new setting is never made without a line";
}

TEST_F(ChangeAuditTest, ClocksAndCountersAreComparedToo) {
  ChangeLine& line = log(ChangeStep::change);
  line.gpu = "GPU-a";
  line.setting = SettingKind::gpu_clocks;
  line.value = SettingValue{600, 1200};
  const std::uint64_t number = line.number;
  log(ChangeStep::done).of = number;
  enter(0, 0, "set gpu_clocks to [600, 1200] MHz", "uid 1000", "assumed");
  audit_.back().before = std::nullopt;
  audit_.back().after = "[600, 1200] MHz";
  ChangeLine& cleared = log(ChangeStep::change);
  cleared.gpu = "GPU-a";
  const std::uint64_t second = cleared.number;
  log(ChangeStep::done).of = second;
  enter(0, 0, "clear volatile ECC counters", "uid 0", "cleared");
  EXPECT_EQ(differences(), std::vector<std::string>());
  audit_.clear();
  EXPECT_EQ(differences().size(), 2U);
}

TEST_F(ChangeAuditTest, FaultsOfTheLogAreDifferences) {
  log_.faults = {"changes.log:3: the line is not readable"};
  EXPECT_EQ(differences(), log_.faults);
}

TEST_F(ChangeAuditTest, ChangesAfterCutoffAreNotCompared) {
  change(700, 300);
  set(250);
  EXPECT_EQ(compare_changes(log_, audit_, at(1)).differences, std::vector<std::string>());
}

}  // namespace
}  // namespace gpuyard::daemon
