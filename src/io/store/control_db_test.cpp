#include "store/control_db.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "store/state_layout.h"

namespace gpuyard::store {
namespace {

using control::AuditEntry;
using control::AuditQuestion;
using control::Claim;
using control::Holding;
using control::When;
using std::chrono::milliseconds;
using std::chrono::seconds;

Holding limits() {
  Holding holding{"GPU-0", SettingKind::power_limit};
  holding.boot_id = "boot";
  holding.baseline = power_limit(700'000);
  holding.written = power_limit(300'000);
  holding.replaced = power_limit(400'000);
  holding.standing = control::Standing::applied;
  holding.claims = {Claim{"uid 1001", {400'000, 400'000}, WallTime(milliseconds(5))},
                    Claim{"uid 1000",
                          {300'000, 300'000},
                          WallTime(milliseconds(6)),
                          TimePoint(seconds(7)),
                          WallTime(milliseconds(8))}};
  return holding;
}

Holding clocks() {
  Holding holding{"GPU-0", SettingKind::gpu_clocks};
  holding.baseline = unlocked(SettingKind::gpu_clocks);
  holding.written = gpu_clocks(1200, 1500);
  holding.standing = control::Standing::assumed;
  holding.claims = {Claim{"zeus:1000", {1200, 1500}}};
  return holding;
}

AuditEntry audit(const std::string& action, const DeviceId& gpu) {
  AuditEntry entry;
  entry.at = WallTime(milliseconds(9));
  entry.by = "uid 1000";
  entry.request_id = "r";
  entry.action = action;
  entry.gpu = gpu;
  entry.index = 3;
  entry.before = "700 W";
  entry.outcome = "failed";
  entry.error = "why \xc3\xa9";
  entry.forced = true;
  entry.took = milliseconds(10);
  return entry;
}

class ControlDbTest : public ::testing::Test {
 protected:
  Result<std::vector<Holding>> load() {
    std::optional<Result<std::vector<Holding>>> loaded;
    EXPECT_TRUE(db_.load([&](Result<std::vector<Holding>> all) { loaded = std::move(all); }));
    worker_.run_all();
    return loaded.value_or(Error{});
  }
  void save(control::ControlEntry entry) {
    bool saved = false;
    EXPECT_TRUE(db_.save(std::move(entry), When::now,
                         [&](const Result<void>& done) { saved = done.ok(); }));
    worker_.run_all();
    EXPECT_TRUE(saved);
  }
  std::vector<AuditEntry> ask(AuditQuestion question) {
    std::vector<AuditEntry> entries;
    EXPECT_TRUE(db_.audit(std::move(question), [&](Result<std::vector<AuditEntry>> answer) {
      ASSERT_TRUE(answer.ok());
      entries = *std::move(answer);
    }));
    worker_.run_all();
    return entries;
  }

  // Adds `each` entries of 1970 for each source.
  void fill_audit(std::int64_t each) {
    const std::string fill = fmt::format(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) "
        "INSERT INTO control_audit SELECT NULL,0,'','','old','',NULL,NULL,NULL,'',NULL,0,0,source "
        "FROM n, (SELECT 'user' AS source UNION ALL SELECT 'administrator' UNION ALL "
        "SELECT 'lease' UNION ALL SELECT 'refused' UNION ALL SELECT 'refused_over_tcp')",
        each);
    ASSERT_TRUE(store_.run([fill](Database& database) { return database.execute(fill.c_str()); },
                           [](const Result<void>&) {}));
    worker_.run_all();
  }
  std::int64_t kept_of(AuditEntry::Source source) {
    return std::ranges::count(ask({"", 100'000, {}}), source, &AuditEntry::source);
  }

  ScratchDirectory directory_;
  CapturedLog log_;
  ManualWorker worker_;
  StateStore store_{worker_, directory_.in("state.db"), kStateLayout};
  ManualLoop loop_;
  ControlDb db_{loop_, store_};
};

TEST_F(ControlDbTest, HoldingsComeBackExactly) {
  save({limits(), {}, {}});
  save({clocks(), {}, {}});
  const auto loaded = load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(*loaded, (std::vector{clocks(), limits()}));
}

TEST_F(ControlDbTest, ALaterHoldingTakesThePlaceOfTheEarlierWithItsClaims) {
  save({limits(), {}, {}});
  Holding later = limits();
  later.claims.erase(later.claims.begin());
  later.replaced.reset();
  save({later, {}, {}});
  EXPECT_EQ(*load(), std::vector{later});
  save({{}, later, {}});
  EXPECT_TRUE(load()->empty());
}

TEST_F(ControlDbTest, WhatMakesNoSenseIsAnErrorAndNotForgotten) {
  save({limits(), {}, {}});
  ASSERT_TRUE(store_.run(
      [](Database& database) {
        return database.execute("UPDATE control_holdings SET kind = 'fan_speed'");
      },
      [](const Result<void>&) {}));
  worker_.run_all();
  const auto loaded = load();
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().message.find("not of this version"), std::string::npos);
}

TEST_F(ControlDbTest, TheAuditIsNumberedAndAskedForFromItsEnd) {
  for (const auto& [action, gpu] :
       {std::pair("one", "GPU-0"), std::pair("two", "GPU-1"), std::pair("three", "GPU-0")}) {
    save({{}, {}, audit(action, gpu)});
  }
  AuditEntry third = audit("three", "GPU-0");
  third.number = 3;
  const auto newest = ask({"", 2, {}});
  ASSERT_EQ(newest.size(), 2U);
  EXPECT_EQ(newest[0].action, "two");
  EXPECT_EQ(newest[1], third);
  const auto earlier = ask({"GPU-0", 10, 3});
  ASSERT_EQ(earlier.size(), 1U);
  EXPECT_EQ(earlier[0].action, "one");
}

TEST_F(ControlDbTest, EachSourceHasAShareOfTheAudit) {
  using Source = AuditEntry::Source;
  using control::ControlArchive;
  fill_audit(ControlArchive::kAuditKept);
  AuditEntry entry = audit("new", "GPU-0");
  entry.at = WallTime(std::chrono::days(100));
  for (const Source source : {Source::user, Source::administrator, Source::lease, Source::refused,
                              Source::refused_over_tcp}) {
    entry.source = source;
    save({{}, {}, entry});
  }
  entry.source = Source::administrator;
  entry.at += std::chrono::days(1);  // the day before is the one that counts
  save({{}, {}, entry});
  EXPECT_EQ(kept_of(Source::user), ControlArchive::kAuditKept);
  EXPECT_EQ(kept_of(Source::administrator), ControlArchive::kAuditKept);
  EXPECT_EQ(kept_of(Source::lease), ControlArchive::kAuditKept / 2);
  EXPECT_EQ(kept_of(Source::refused), ControlArchive::kRefusalsKept);
  EXPECT_EQ(kept_of(Source::refused_over_tcp), ControlArchive::kRefusalsKept);
  EXPECT_EQ(ask({"", 1, {}}).front().action, "new");
}

TEST_F(ControlDbTest, WhatAdministratorsDidIsKeptForATime) {
  using control::ControlArchive;
  fill_audit(ControlArchive::kAuditKept);
  AuditEntry entry = audit("new", "GPU-0");
  entry.source = AuditEntry::Source::administrator;
  entry.at = WallTime(std::chrono::days(89));
  save({{}, {}, entry});
  EXPECT_EQ(kept_of(entry.source), ControlArchive::kAuditKept + 1);
  entry.at = WallTime(std::chrono::days(20'000));  // a clock that is wrong once
  save({{}, {}, entry});
  EXPECT_EQ(kept_of(entry.source), ControlArchive::kAuditKept + 2);
  entry.at = WallTime(std::chrono::days(91));
  save({{}, {}, entry});
  EXPECT_EQ(kept_of(entry.source), ControlArchive::kAuditKept);
}

TEST_F(ControlDbTest, WhatIsToBeKeptSoonIsKeptTogetherAfterAMoment) {
  int kept = 0;
  const auto count = [&](const Result<void>& done) { kept += done ? 1 : 0; };
  ASSERT_TRUE(db_.save({limits(), {}, {}}, When::soon, count));
  ASSERT_TRUE(db_.save({{}, {}, audit("one", "GPU-0")}, When::soon, count));
  worker_.run_all();
  EXPECT_EQ(kept, 0);
  loop_.advance(control::ControlArchive::kSoon);
  EXPECT_EQ(worker_.waiting(), 1U);
  worker_.run_all();
  EXPECT_EQ(kept, 2);
  EXPECT_EQ(*load(), std::vector{limits()});
}

TEST_F(ControlDbTest, AHoldingThatIsPutNowIsNotOverwrittenByAnOlderOne) {
  int kept = 0;
  const auto count = [&](const Result<void>& done) { kept += done ? 1 : 0; };
  Holding older = limits();
  older.written = power_limit(500'000);
  ASSERT_TRUE(db_.save({older, {}, audit("one", "GPU-0")}, When::soon, count));
  ASSERT_TRUE(db_.save({{}, clocks(), {}}, When::soon, count));
  ASSERT_TRUE(db_.save({limits(), {}, {}}, When::now, count));
  worker_.run_all();
  EXPECT_EQ(*load(), std::vector{limits()});
  loop_.advance(control::ControlArchive::kSoon);
  worker_.run_all();
  EXPECT_EQ(*load(), std::vector{limits()});
  EXPECT_EQ(ask({"", 10, {}}).size(), 1U);
  EXPECT_EQ(kept, 4);
}

TEST_F(ControlDbTest, AHoldingThatIsRemovedNowDoesNotComeBack) {
  const auto nobody = [](const Result<void>&) {};
  ASSERT_TRUE(db_.save({limits(), {}, {}}, When::soon, nobody));
  ASSERT_TRUE(db_.save({{}, limits(), {}}, When::now, nobody));
  loop_.advance(control::ControlArchive::kSoon);
  worker_.run_all();
  EXPECT_TRUE(load()->empty());
}

TEST_F(ControlDbTest, TheAuditThatIsAskedForIsWhole) {
  ASSERT_TRUE(db_.save({{}, {}, audit("one", "GPU-0")}, When::soon, [](const Result<void>&) {}));
  EXPECT_EQ(ask({"", 10, {}}).size(), 1U);
}

TEST_F(ControlDbTest, TheEndKeepsWhatWasToBeKeptSoon) {
  {
    ControlDb ending(loop_, store_);
    ASSERT_TRUE(ending.save({limits(), {}, {}}, When::soon, [](const Result<void>&) {}));
  }
  EXPECT_EQ(*load(), std::vector{limits()});
}

}  // namespace
}  // namespace gpuyard::store
