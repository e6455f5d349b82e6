#include "io/store/usage_db.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/store/migrations.h"

namespace gpuyard::store {
namespace {

using std::chrono::days;
using std::chrono::hours;
using usage::Day;
using usage::UsageGrouping;
using usage::UsageQuery;
using usage::UsageReport;
using usage::UsageRow;
using usage::UsageTotal;

constexpr Day kToday{days(20'000)};  // 2024-10-04

// A row of `long_` hours at 100 W and that utilisation.
UsageRow row(Day day, const std::string& lease, const std::string& gpu, std::uint32_t uid,
             int long_, int percent = 50) {
  UsageRow row{day, lease, gpu, uid, false, {}};
  row.counters.held = row.counters.counted = row.counters.watched = hours(long_);
  row.counters.energy_mj = long_ * 360'000'000LL;
  row.counters.busy_ns = percent * row.counters.watched.count();
  row.counters.peak_bytes = long_ * 1000;
  return row;
}

class UsageDbTest : public ::testing::Test {
 protected:
  std::vector<UsageRow> load(Day since, std::set<std::string> leases) {
    std::vector<UsageRow> rows;
    EXPECT_TRUE(db_.load(since, std::move(leases), [&](Result<std::vector<UsageRow>> loaded) {
      EXPECT_TRUE(loaded);
      if (loaded) rows = *std::move(loaded);
    }));
    worker_.run_all();
    return rows;
  }
  void save(std::vector<UsageRow> rows, std::vector<UsageRow> folds = {}) {
    bool saved = false;
    EXPECT_TRUE(db_.save({std::move(rows), std::move(folds)},
                         [&](const Result<void>& done) { saved = done.ok(); }));
    worker_.run_all();
    EXPECT_TRUE(saved);
  }
  UsageReport ask(const UsageQuery& question, std::vector<UsageRow> unsaved_rows = {}) {
    UsageReport answer;
    EXPECT_TRUE(db_.query(question, std::move(unsaved_rows), [&](Result<UsageReport> got) {
      EXPECT_TRUE(got) << got.error().message;
      if (got) answer = *std::move(got);
    }));
    worker_.run_all();
    return answer;
  }
  static std::string keys(const UsageReport& answer) {
    std::string text;
    for (const UsageTotal& sum : answer.totals) text += sum.key + " ";
    return text;
  }

  ScratchDirectory directory_;
  CapturedLog log_;
  ManualWorker worker_;
  StateStore store_{worker_, worker_, directory_.in("usage.db"), kUsageMigrations};
  UsageDb db_{store_};
};

TEST_F(UsageDbTest, LoadReturnsNamedLeasesAndUnleasedRows) {
  UsageRow full = row(kToday, "a", "GPU-0", 4'000'000'000U, 3);
  full.simulated = true;
  full.counters.estimated_mj = 7;
  full.counters.counted = hours(2);
  UsageRow empty{kToday, "", "GPU-0", 0, false, {}};
  save({full, empty, row(kToday, "b", "GPU-1", 1, 1), row(kToday - days(1), "a", "GPU-0", 1, 1)});
  EXPECT_EQ(load(kToday, {"a"}), (std::vector{empty, full}));
}

TEST_F(UsageDbTest, ALaterRowTakesThePlaceOfAnEarlierOne) {
  save({row(kToday, "a", "GPU-0", 1000, 1), row(kToday, "a", "GPU-1", 1000, 1)});
  save({row(kToday, "a", "GPU-0", 1000, 2)});
  EXPECT_EQ(load(kToday, {"a"}),
            (std::vector{row(kToday, "a", "GPU-0", 1000, 2), row(kToday, "a", "GPU-1", 1000, 1)}));
}

TEST_F(UsageDbTest, ReusedLeaseIdKeepsEarlierUsage) {
  UsageRow before = row(kToday, "a", "GPU-0", 1000, 8);
  before.fence = 7;
  UsageRow after = row(kToday, "a", "GPU-0", 1000, 1);
  after.fence = 9;
  save({before});
  save({after});
  const auto answer = ask({UsageGrouping::user, kToday, false});
  ASSERT_EQ(answer.totals.size(), 1U);
  EXPECT_EQ(answer.totals[0].held_s, 9 * 3600);
  EXPECT_EQ(answer.totals[0].leases, 2);
}

TEST(UsageDb, RowsFromBeforeFencesWereKeptAreStillThere) {
  const ScratchDirectory directory;
  const auto commit = [&](StateDb::Migrations layout, const StateDb::Work& work) {
    StateDb file(directory.in("usage.db"), layout);
    const auto done = file.commit(std::span(&work, 1));
    EXPECT_TRUE(done) << done.error().message;
  };
  commit(std::span(kUsageMigrations).first(3), [](Database& database) {
    return database.execute(
        "INSERT INTO lease_use VALUES(20000,'a','GPU-0',0,1000,1,2,3,4,5,6,NULL,1)");
  });
  commit(kUsageMigrations, [](Database&) { return Result<void>(); });
  std::vector<UsageRow> rows;
  commit(kUsageMigrations, [&](Database& database) -> Result<void> {  // one that is checked
    auto loaded = load_usage(database, kToday, {"a"});
    if (!loaded) return std::move(loaded).error();
    rows = *std::move(loaded);
    return {};
  });
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].fence, 0U);
  EXPECT_EQ(rows[0].counters.energy_mj, 3);
  EXPECT_EQ(rows[0].pod, "");
}

TEST_F(UsageDbTest, FourHundredDaysAreKept) {
  std::vector<UsageRow> rows;
  for (int day = 0; day <= 400; ++day) {
    rows.push_back(row(kToday - days(day), "a", "GPU-0", 1, 1));
  }
  save(rows);
  save({});
  const auto kept = load(Day{}, {"a"});
  ASSERT_EQ(kept.size(), 400U);
  EXPECT_EQ(kept.front().day, kToday - days(399));
}

TEST_F(UsageDbTest, WrongClockKeepsOldUsage) {
  save({row(kToday - days(300), "old", "GPU-0", 1, 1), row(kToday, "new", "GPU-0", 1, 1)});
  for (const int wrong : {4000, 4001, -19'000})
    save({row(kToday + days(wrong), "x", "GPU-0", 1, 1)});
  save({});
  EXPECT_EQ(load(Day{}, {"old", "new"}).size(), 2U);
}

TEST_F(UsageDbTest, TinyLeasesAreCompactedIntoOneRow) {
  std::vector<UsageRow> rows;
  for (int i = 0; i < 1000; ++i) {
    for (const auto* const gpu : {"GPU-0", "GPU-1"}) {
      UsageRow small{kToday, "tiny-" + std::to_string(i), gpu, 1000, false, {}};
      small.counters.held = small.counters.counted = std::chrono::milliseconds(3);
      small.counters.energy_mj = 200;
      small.compacted_leases = gpu == std::string("GPU-0") ? 1 : 0;
      rows.push_back(small);
    }
  }
  save({row(kToday, "large", "GPU-0", 1000, 1)});
  save(rows);
  EXPECT_EQ(load(Day{}, {"tiny-0"}).size(), 2U) << "first it is kept";
  save({}, rows);
  save({}, rows);  // once more, as after an answer that was lost
  EXPECT_EQ(load(Day{}, {"tiny-0"}).size(), 0U);
  const auto sums = ask({UsageGrouping::user, kToday, false}).totals;
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_EQ(sums[0].leases, 1001);
  EXPECT_EQ(sums[0].energy_mj, 2000 * 200 + 360'000'000);
  const auto by_lease = ask({UsageGrouping::lease, kToday, false});
  EXPECT_EQ(keys(by_lease), "large folded:1000 ");
  EXPECT_EQ(by_lease.totals[1].leases, 1000);
}

TEST_F(UsageDbTest, OversizedFileCompactsOldDaysOfLargestUser) {
  UsageDb small{store_, 0};
  std::vector<UsageRow> rows;
  for (int day = 0; day < 5; ++day) {
    for (int i = 0; i < 20; ++i) {
      rows.push_back(row(kToday - days(day), fmt::format("his-{}-{}", day, i), "GPU-0", 1000, 1));
    }
    rows.push_back(row(kToday - days(day), "his-for-days", "GPU-1", 1000, 1));
    rows.push_back(row(kToday - days(day), "hers", "GPU-0", 1001, 1));
  }
  save(rows);
  const auto before = ask({UsageGrouping::user, Day{}, false});
  EXPECT_TRUE(small.notes().empty());
  EXPECT_TRUE(small.save({{}, {}, {"hers"}}, [](const Result<void>&) {}));
  worker_.run_all();
  const auto after = ask({UsageGrouping::user, Day{}, false});
  ASSERT_EQ(after.totals.size(), 2U);
  EXPECT_EQ(after.totals[0].energy_mj, before.totals[0].energy_mj);
  EXPECT_EQ(after.totals[0].held_s, before.totals[0].held_s);
  EXPECT_EQ(after.totals[0].leases, 101) << "that of several days is counted once";
  EXPECT_EQ(load(Day{}, {"his-2-0", "his-4-19"}).size(), 0U);
  EXPECT_EQ(load(Day{}, {"his-0-0", "his-1-0"}).size(), 0U) << "over today, and folded today";
  EXPECT_EQ(load(Day{}, {"hers"}).size(), 5U) << "which goes on";
  EXPECT_EQ(small.notes().size(), 1U);
}

TEST_F(UsageDbTest, UseIsSummedByUserDayGpuAndLease) {
  UsageRow estimated = row(kToday, "c", "GPU-1", 1001, 6, 100);
  estimated.counters.estimated_mj = 5;
  estimated.counters.counted = hours(1);
  UsageRow simulated = row(kToday, "s", "GPU-0", 1000, 24);
  simulated.simulated = true;
  save({row(kToday - days(9), "older", "GPU-0", 1000, 20),
        row(kToday - days(1), "a", "GPU-0", 1000, 4), row(kToday, "a", "GPU-0", 1000, 2, 80),
        row(kToday, "a", "GPU-1", 1000, 2, 80), estimated, row(kToday, "", "GPU-0", 0, 10),
        row(kToday, "", "GPU-1", 0, 5), simulated});

  const auto by_user = ask({UsageGrouping::user, kToday - days(1), false});
  ASSERT_EQ(keys(by_user), "1000 1001 ");
  EXPECT_EQ(by_user.totals[0],
            (UsageTotal{"1000", 1000, 8 * 3600, 8 * 3600, 8 * 360'000'000LL, 0, 65.0, 4000, 1}));
  EXPECT_EQ(by_user.totals[1],
            (UsageTotal{"1001", 1001, 6 * 3600, 3600, 6 * 360'000'000LL, 5, 100.0, 6000, 1}));
  EXPECT_EQ(by_user.unleased.held_s, 15 * 3600);
  EXPECT_EQ(by_user.unleased.energy_mj, 15 * 360'000'000LL);

  const auto by_day = ask({UsageGrouping::day, kToday - days(10), false});
  EXPECT_EQ(keys(by_day), "2024-09-25 2024-10-03 2024-10-04 ") << "in order";
  EXPECT_EQ(by_day.totals[2].leases, 2);
  EXPECT_FALSE(by_day.totals[2].uid);
  EXPECT_EQ(keys(ask({UsageGrouping::gpu, kToday, false})), "GPU-1 GPU-0 ");
  const auto by_lease = ask({UsageGrouping::lease, kToday, false});
  EXPECT_EQ(keys(by_lease), "c a ");
  EXPECT_EQ(by_lease.totals[1].uid, 1000U);
  EXPECT_EQ(keys(ask({UsageGrouping::user, kToday, true})), "1000 ") << "simulated GPUs are apart";
}

UsageRow of_pod(UsageRow row, const std::string& pod) {
  row.pod = pod;
  return row;
}

TEST_F(UsageDbTest, UseIsSummedByPodAndNamespace) {
  const std::vector rows{of_pod(row(kToday, "pod-trainer-1", "GPU-0", 1, 3), "ml/trainer"),
                         of_pod(row(kToday, "pod-trainer-2", "GPU-1", 1, 4), "ml/trainer"),
                         of_pod(row(kToday, "pod-eval-1", "GPU-1", 1, 2), "ml/eval"),
                         of_pod(row(kToday, "pod-trainer-3", "GPU-2", 1, 5), "web/trainer"),
                         row(kToday, "a", "GPU-3", 1000, 1),
                         row(kToday, "", "GPU-3", 0, 7)};
  save(rows);
  const auto by_pod = ask({UsageGrouping::pod, kToday, false});
  EXPECT_EQ(keys(by_pod), "ml/trainer web/trainer ml/eval  ");
  EXPECT_EQ(by_pod.totals[0].held_s, 7 * 3600);
  EXPECT_EQ(by_pod.totals[0].leases, 2);
  EXPECT_FALSE(by_pod.totals[0].uid);
  const auto by_namespace = ask({UsageGrouping::pod_namespace, kToday, false});
  EXPECT_EQ(keys(by_namespace), "ml web  ");
  EXPECT_EQ(by_namespace.totals[0].energy_mj, 9 * 360'000'000LL);
  EXPECT_EQ(by_namespace.unleased.held_s, 7 * 3600);
  EXPECT_EQ(load(kToday, {"pod-trainer-1"}), (std::vector{rows[5], rows[0]}));
}

TEST_F(UsageDbTest, SmallLeasesOfPodsAreOfNoPod) {
  const UsageRow small = of_pod(row(kToday, "pod-trainer-1", "GPU-0", 1, 1), "ml/trainer");
  UsageRow over = small;
  over.compacted_leases = 1;
  save({small});
  save({}, {over});
  const auto by_pod = ask({UsageGrouping::pod, kToday, false});
  ASSERT_EQ(by_pod.totals.size(), 1U);
  EXPECT_EQ(by_pod.totals[0].key, "");
  EXPECT_EQ(by_pod.totals[0].held_s, 3600);
}

TEST_F(UsageDbTest, UnobservedLeaseHasNoUtilization) {
  UsageRow blind{kToday, "a", "GPU-0", 1000, false, {}};
  blind.counters.held = hours(1);
  save({blind});
  const auto answer = ask({UsageGrouping::user, kToday, false});
  ASSERT_EQ(answer.totals.size(), 1U);
  EXPECT_FALSE(answer.totals[0].mean_utilization_percent);
  EXPECT_FALSE(answer.totals[0].peak_bytes);
  EXPECT_EQ(answer.totals[0].counted_s, 0);
}

TEST_F(UsageDbTest, UncommittedRowsAreSummedButNotSaved) {
  save({row(kToday, "a", "GPU-0", 1000, 1)});
  const auto answer = ask({UsageGrouping::lease, kToday, false},
                          {row(kToday, "a", "GPU-0", 1000, 5), row(kToday, "b", "GPU-1", 1000, 2)});
  ASSERT_EQ(keys(answer), "a b ");
  EXPECT_EQ(answer.totals[0].held_s, 5 * 3600) << "in the place of what is kept, not beside it";
  EXPECT_EQ(load(kToday, {"a", "b"}), std::vector{row(kToday, "a", "GPU-0", 1000, 1)});
}

TEST_F(UsageDbTest, TotalsBeyondLimitAreCountedAsOmitted) {
  std::vector<UsageRow> rows;
  for (std::size_t i = 0; i < UsageReport::kMaxTotals + 3; ++i) {
    rows.push_back(row(kToday, "lease-" + std::to_string(i), "GPU-0", 1000, i == 7 ? 2 : 1));
  }
  save(std::move(rows));
  const auto answer = ask({UsageGrouping::lease, kToday, false});
  EXPECT_EQ(answer.totals.size(), UsageReport::kMaxTotals);
  EXPECT_EQ(answer.left_out, 3);
  EXPECT_EQ(answer.totals[0].key, "lease-7");
}

}  // namespace
}  // namespace gpuyard::store
