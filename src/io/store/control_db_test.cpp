#include "io/store/control_db.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/store/migrations.h"

namespace gpuyard::store {
namespace {

using control::AuditEntry;
using control::AuditQuery;
using control::CommitTiming;
using control::ManagedSetting;
using control::SettingClaim;
using std::chrono::milliseconds;
using std::chrono::seconds;

ManagedSetting limits() {
  ManagedSetting holding{"GPU-0", SettingKind::power_limit};
  holding.boot_id = "boot";
  holding.baseline = power_limit(700'000);
  holding.written = power_limit(300'000);
  holding.replaced = power_limit(400'000);
  holding.status = control::SettingStatus::applied;
  holding.claims = {SettingClaim{"uid 1001", {400'000, 400'000}, WallTime(milliseconds(5))},
                    SettingClaim{"uid 1000",
                                 {300'000, 300'000},
                                 WallTime(milliseconds(6)),
                                 TimePoint(seconds(7)),
                                 WallTime(milliseconds(8))}};
  return holding;
}

ManagedSetting clocks() {
  ManagedSetting holding{"GPU-0", SettingKind::gpu_clocks};
  holding.baseline = unlocked(SettingKind::gpu_clocks);
  holding.written = gpu_clocks(1200, 1500);
  holding.status = control::SettingStatus::assumed;
  holding.claims = {SettingClaim{"zeus:1000", {1200, 1500}}};
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
  Result<std::vector<ManagedSetting>> load() {
    std::optional<Result<std::vector<ManagedSetting>>> loaded;
    EXPECT_TRUE(
        db_.load([&](Result<std::vector<ManagedSetting>> all) { loaded = std::move(all); }));
    worker_.run_all();
    return loaded.value_or(Error{});
  }
  void save(control::ControlTransaction entry) {
    bool saved = false;
    EXPECT_TRUE(db_.save(std::move(entry), CommitTiming::now,
                         [&](const Result<void>& done) { saved = done.ok(); }));
    worker_.run_all();
    EXPECT_TRUE(saved);
  }
  std::vector<AuditEntry> ask(AuditQuery question) {
    std::vector<AuditEntry> entries;
    EXPECT_TRUE(db_.query_audit(std::move(question), [&](Result<std::vector<AuditEntry>> answer) {
      ASSERT_TRUE(answer.ok());
      entries = *std::move(answer);
    }));
    worker_.run_all();
    return entries;
  }

  // Adds `each` entries of one person to each source, dated 1970.
  void fill_audit(std::int64_t each) {
    const std::string fill = fmt::format(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) "
        "INSERT INTO control_audit SELECT "
        "NULL,0,'','','old','',NULL,NULL,NULL,'',NULL,0,0,source,'uid 1' "
        "FROM n, (SELECT 'user' AS source UNION ALL SELECT 'ordinary' UNION ALL "
        "SELECT 'administrator' UNION ALL SELECT 'lease' UNION ALL SELECT 'gpuyard' UNION ALL "
        "SELECT 'refused' UNION ALL SELECT 'refused_over_tcp')",
        each);
    ASSERT_TRUE(store_.run(
        Requester::daemon(), [fill](Database& database) { return database.execute(fill.c_str()); },
        [](const Result<void>&) {}));
    worker_.run_all();
  }
  // Saves the entry until the next pruning; returns how often.
  std::int64_t save_until_pruned(const AuditEntry& entry) {
    constexpr std::int64_t kPruneEvery = 256;
    std::int64_t saved = 0;
    do {
      save({{}, {}, entry});
      ++saved;
    } while (ask({"", 1, {}}).front().number % kPruneEvery != 0);
    return saved;
  }
  std::int64_t kept_of(AuditEntry::Source source) {
    return std::ranges::count(ask({"", 100'000, {}}), source, &AuditEntry::source);
  }

  ScratchDirectory directory_;
  CapturedLog log_;
  ManualWorker worker_;
  StateStore store_{worker_, worker_, directory_.in("state.db"), kStateMigrations};
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

TEST_F(ControlDbTest, LaterManagedSettingReplacesEarlierWithClaims) {
  save({limits(), {}, {}});
  ManagedSetting later = limits();
  later.claims.erase(later.claims.begin());
  later.replaced.reset();
  save({later, {}, {}});
  EXPECT_EQ(*load(), std::vector{later});
  save({{}, later, {}});
  EXPECT_TRUE(load()->empty());
}

TEST_F(ControlDbTest, UnreadableSettingIsPutAside) {
  save({limits(), {}, {}});
  save({clocks(), {}, {}});
  ASSERT_TRUE(store_.run(
      Requester::daemon(),
      [](Database& database) {
        return database.execute(
            "UPDATE control_holdings SET kind = 'fan_speed' WHERE kind = 'power_limit'");
      },
      [](const Result<void>&) {}));
  worker_.run_all();
  const auto loaded = load();
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(*loaded, std::vector{clocks()});
  EXPECT_EQ(store_.notes().size(), 1U);
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
  using control::ControlStorage;
  fill_audit(ControlStorage::kMaxAuditEntries);
  AuditEntry entry = audit("new", "GPU-0");
  entry.at = WallTime(std::chrono::days(100));
  for (const Source source : {Source::user, Source::ordinary, Source::administrator, Source::lease,
                              Source::gpuyard, Source::refused, Source::refused_over_tcp}) {
    entry.source = source;
    save({{}, {}, entry});
  }
  entry.source = Source::administrator;
  entry.at += std::chrono::days(1);  // the day before is the one that counts
  save_until_pruned(entry);
  EXPECT_EQ(kept_of(Source::user), ControlStorage::kMaxAuditEntries);
  EXPECT_EQ(kept_of(Source::ordinary), ControlStorage::kMaxOrdinaryEntries);
  EXPECT_EQ(kept_of(Source::administrator), ControlStorage::kMaxAuditEntries);
  EXPECT_EQ(kept_of(Source::lease), ControlStorage::kMaxLeaseEntries);
  EXPECT_EQ(kept_of(Source::gpuyard), ControlStorage::kMaxAuditEntries);
  EXPECT_EQ(kept_of(Source::refused), ControlStorage::kMaxRefusalEntries);
  EXPECT_EQ(kept_of(Source::refused_over_tcp), ControlStorage::kMaxRefusalEntries);
  EXPECT_EQ(ask({"", 1, {}}).front().action, "new");
}

TEST_F(ControlDbTest, PruningTakesTheOldestEntriesOfTheLargestUser) {
  using control::ControlStorage;
  AuditEntry entry = audit("by the smaller user", "");
  entry.source = AuditEntry::Source::refused;
  entry.quota_group = "uid 2";
  for (int i = 0; i < 3; ++i) save({{}, {}, entry});
  fill_audit(ControlStorage::kMaxRefusalEntries + 100);
  entry.action = "of a third";
  entry.quota_group = "uid 3";
  save_until_pruned(entry);
  const auto all = ask({"", 100'000, {}});
  EXPECT_EQ(std::ranges::count(all, "by the smaller user", &AuditEntry::action), 3);
  EXPECT_GT(std::ranges::count(all, "of a third", &AuditEntry::action), 0);
  EXPECT_EQ(kept_of(AuditEntry::Source::refused), ControlStorage::kMaxRefusalEntries);
}

TEST_F(ControlDbTest, PruningLevelsTheTwoLargestUsers) {
  using control::ControlStorage;
  AuditEntry entry = audit("more", "");
  entry.source = AuditEntry::Source::refused;
  for (int i = 0; i < 900; ++i) {
    entry.quota_group = i % 4 == 0 ? "uid 2" : "uid 3";
    save({{}, {}, entry});
  }
  fill_audit(500);  // of uid 1
  entry.quota_group = "uid 4";
  const auto of_fourth = save_until_pruned(entry);
  const auto all = ask({"", 100'000, {}});
  const auto count = [&](const char* person) {
    return std::ranges::count_if(all, [&](const AuditEntry& one) {
      return one.quota_group == person && one.source == entry.source;
    });
  };
  EXPECT_EQ(count("uid 2"), 225) << "fewer than the share that the others are left with";
  EXPECT_EQ(count("uid 4"), of_fourth);
  EXPECT_LE(std::abs(count("uid 1") - count("uid 3")), 1);
  EXPECT_EQ(kept_of(entry.source), ControlStorage::kMaxRefusalEntries);
}

TEST_F(ControlDbTest, AdministratorAuditIsPrunedAfterRetention) {
  using control::ControlStorage;
  fill_audit(ControlStorage::kMaxAuditEntries);
  AuditEntry entry = audit("new", "GPU-0");
  entry.source = AuditEntry::Source::administrator;
  entry.at = WallTime(std::chrono::days(89));
  std::int64_t saved = save_until_pruned(entry);
  EXPECT_EQ(kept_of(entry.source), ControlStorage::kMaxAuditEntries + saved);
  entry.at = WallTime(std::chrono::days(20'000));  // a clock that is wrong once
  saved += save_until_pruned(entry);
  EXPECT_EQ(kept_of(entry.source), ControlStorage::kMaxAuditEntries + saved);
  entry.at = WallTime(std::chrono::days(91));
  save_until_pruned(entry);
  EXPECT_EQ(kept_of(entry.source), ControlStorage::kMaxAuditEntries);
}

TEST(AuditPersons, AreDerivedWhenAnOlderFileIsMigrated) {
  const ScratchDirectory directory;
  const auto commit = [&](StateDb::Migrations layout, const StateDb::Work& work) {
    StateDb file(directory.in("state.db"), layout);
    const auto done = file.commit(std::span(&work, 1));
    EXPECT_TRUE(done) << done.error().message;
  };
  constexpr std::size_t kBefore = 7;  // the migrations before persons were added
  commit(std::span(kStateMigrations).first(kBefore), [](Database& database) {
    return database.execute(
        "INSERT INTO control_audit SELECT NULL,0,column1,'',column2,'',NULL,NULL,NULL,'',NULL,0,0,"
        "'user' FROM (VALUES('uid 7','set ecc to on'),('uid 7 by token abc','revoke token x'),"
        "('uid 7 under lease a of uid 7','set ecc to on'),('gpuyard','put back ecc'))");
  });
  commit(kStateMigrations, [](Database&) { return Result<void>(); });
  std::vector<AuditEntry> entries;
  commit(kStateMigrations, [&](Database& database) -> Result<void> {
    auto loaded = load_audit(database, {});
    if (!loaded) return std::move(loaded).error();
    entries = *std::move(loaded);
    return {};
  });
  using Source = AuditEntry::Source;
  ASSERT_EQ(entries.size(), 4U);
  const Source sources[] = {Source::user, Source::ordinary, Source::user, Source::gpuyard};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(entries[i].source, sources[i]) << i;
    EXPECT_EQ(entries[i].quota_group, i == 3 ? "gpuyard" : "uid 7") << i;
  }
}

TEST_F(ControlDbTest, DeferredSavesCommitTogetherAfterDelay) {
  int kept = 0;
  const auto count = [&](const Result<void>& done) { kept += done ? 1 : 0; };
  ASSERT_TRUE(db_.save({limits(), {}, {}}, CommitTiming::soon, count));
  ASSERT_TRUE(db_.save({{}, {}, audit("one", "GPU-0")}, CommitTiming::soon, count));
  worker_.run_all();
  EXPECT_EQ(kept, 0);
  loop_.advance(control::ControlStorage::kMaxCommitDelay);
  EXPECT_EQ(worker_.waiting(), 1U);
  worker_.run_all();
  EXPECT_EQ(kept, 2);
  EXPECT_EQ(*load(), std::vector{limits()});
}

TEST_F(ControlDbTest, ImmediateSaveSupersedesOlderDeferredSave) {
  int kept = 0;
  const auto count = [&](const Result<void>& done) { kept += done ? 1 : 0; };
  ManagedSetting older = limits();
  older.written = power_limit(500'000);
  ASSERT_TRUE(db_.save({older, {}, audit("one", "GPU-0")}, CommitTiming::soon, count));
  ASSERT_TRUE(db_.save({{}, clocks(), {}}, CommitTiming::soon, count));
  ASSERT_TRUE(db_.save({limits(), {}, {}}, CommitTiming::now, count));
  worker_.run_all();
  EXPECT_EQ(*load(), std::vector{limits()});
  loop_.advance(control::ControlStorage::kMaxCommitDelay);
  worker_.run_all();
  EXPECT_EQ(*load(), std::vector{limits()});
  EXPECT_EQ(ask({"", 10, {}}).size(), 1U);
  EXPECT_EQ(kept, 3);
}

TEST_F(ControlDbTest, RemovedSettingIsNotRestoredByDeferredSave) {
  const auto nobody = [](const Result<void>&) {};
  ASSERT_TRUE(db_.save({limits(), {}, {}}, CommitTiming::soon, nobody));
  ASSERT_TRUE(db_.save({{}, limits(), {}}, CommitTiming::now, nobody));
  loop_.advance(control::ControlStorage::kMaxCommitDelay);
  worker_.run_all();
  EXPECT_TRUE(load()->empty());
}

TEST_F(ControlDbTest, TheAuditThatIsAskedForIsWhole) {
  ASSERT_TRUE(
      db_.save({{}, {}, audit("one", "GPU-0")}, CommitTiming::soon, [](const Result<void>&) {}));
  EXPECT_EQ(ask({"", 10, {}}).size(), 1U);
}

TEST_F(ControlDbTest, AuditEntriesLeaveRoomForSettings) {
  const auto nobody = [](const Result<void>&) {};
  const auto line = [&](const std::string& party) {
    return db_.save({{}, {}, audit("refused", "GPU-0"), {party}}, CommitTiming::soon, nobody);
  };
  for (std::size_t i = 0; i < limits::kControlEntriesPerUser; ++i) EXPECT_TRUE(line("uid 1001"));
  EXPECT_FALSE(line("uid 1001"));
  std::size_t of_others = 0;
  for (int user = 0; user < 10'000; ++user) of_others += line(fmt::format("uid {}", user + 2000));
  EXPECT_EQ(of_others + limits::kControlEntriesPerUser,
            limits::kMaxControlEntries - limits::kReservedControlEntries);
  EXPECT_TRUE(db_.save({limits(), {}, {}, {"uid 1001"}}, CommitTiming::soon, nobody));
  loop_.advance(control::ControlStorage::kMaxCommitDelay);
  worker_.run_all();
  EXPECT_EQ(*load(), std::vector{limits()});
  EXPECT_TRUE(line("uid 1001"));
}

TEST_F(ControlDbTest, AuditIsFilteredByGpu) {
  for (int i = 0; i < 300; ++i) {
    save({{}, {}, audit(fmt::format("change {}", i), fmt::format("GPU-{}", i % 3))});
  }
  const auto two = ask({"GPU-0,GPU-2", 5, {}});
  ASSERT_EQ(two.size(), 5U);
  EXPECT_EQ(two.back().action, "change 299");
  EXPECT_EQ(two.front().action, "change 293");
  for (const AuditEntry& entry : two) EXPECT_NE(entry.gpu, "GPU-1");
  EXPECT_TRUE(ask({"GPU-9", 5, {}}).empty());
}

TEST_F(ControlDbTest, ShutdownCommitsDeferredSaves) {
  {
    ControlDb ending(loop_, store_);
    ASSERT_TRUE(ending.save({limits(), {}, {}}, CommitTiming::soon, [](const Result<void>&) {}));
  }
  EXPECT_EQ(*load(), std::vector{limits()});
}

}  // namespace
}  // namespace gpuyard::store
