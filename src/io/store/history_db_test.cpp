#include "io/store/history_db.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "core/history/rings.h"

namespace gpuyard::store {
namespace {

using history::DaemonRun;
using history::kHourMs;
using history::kMinuteMs;
using history::RunMinutes;
using history::SeriesKey;
using history::SeriesMinutes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kOffset = 1'700'000'000'000;
const SeriesKey kPower{"GPU-1", "power_draw_w", 0};

class HistoryDbTest : public ::testing::Test {
 protected:
  std::string path() const { return directory_.in("history.db"); }
  static DaemonRun run(const std::string& boot, std::int64_t first_ms, std::int64_t last_ms,
                       std::int64_t offset = kOffset) {
    return {boot, offset, {}, first_ms, last_ms};
  }
  static SeriesMinutes minutes(std::int64_t from_ms, std::int64_t until_ms,
                               std::int64_t value = 7) {
    SeriesMinutes out{kPower, {}};
    for (; from_ms < until_ms; from_ms += kMinuteMs) {
      out.buckets.push_back({from_ms, {value, value + 2, 60, 60}});
    }
    return out;
  }
  static std::vector<RunMinutes> all(HistoryDb& db, const DaemonRun& present) {
    auto got = db.get(present, kPower, 0, INT64_MAX / 2);
    EXPECT_TRUE(got) << got.error().message;
    return got ? *got : std::vector<RunMinutes>{};
  }
  static std::size_t count(HistoryDb& db, const DaemonRun& present) {
    std::size_t buckets = 0;
    for (const RunMinutes& past : all(db, present)) buckets += past.buckets.size();
    return buckets;
  }

  const ScratchDirectory directory_;
};

TEST_F(HistoryDbTest, MinutesSurviveRestart) {
  const DaemonRun first = run("boot", 0, 3 * kHourMs);
  const SeriesMinutes put = minutes(0, 3 * kHourMs);
  {
    HistoryDb db(path());
    ASSERT_TRUE(db.put(first, {put}));
  }
  HistoryDb db(path());
  const DaemonRun present = run("boot", 4 * kHourMs, 5 * kHourMs);
  const auto past = all(db, present);
  ASSERT_EQ(past.size(), 1U);
  EXPECT_FALSE(past[0].present);
  EXPECT_EQ(past[0].run, first);
  EXPECT_EQ(past[0].buckets, put.buckets);
}

TEST_F(HistoryDbTest, PuttingAnHourAgainReplacesIt) {
  HistoryDb db(path());
  ASSERT_TRUE(db.put(run("boot", 0, 10 * kMinuteMs), {minutes(0, 10 * kMinuteMs, 1)}));
  const DaemonRun present = run("boot", 0, 20 * kMinuteMs);
  ASSERT_TRUE(db.put(present, {minutes(0, 20 * kMinuteMs, 1)}));
  const auto past = all(db, present);
  ASSERT_EQ(past.size(), 1U);
  EXPECT_TRUE(past[0].present);
  EXPECT_EQ(past[0].buckets.size(), 20U);
}

TEST_F(HistoryDbTest, OverlappingRunsKeepSeparateMinutes) {
  HistoryDb db(path());
  ASSERT_TRUE(db.put(run("boot", 0, 10 * kMinuteMs), {minutes(0, 10 * kMinuteMs)}));
  const DaemonRun second = run("boot", 9 * kMinuteMs, 20 * kMinuteMs);
  ASSERT_TRUE(db.put(second, {minutes(9 * kMinuteMs, 20 * kMinuteMs)}));
  EXPECT_EQ(count(db, second), 21U);
}

TEST_F(HistoryDbTest, OnlyTheAskedTimeIsRead) {
  HistoryDb db(path());
  const DaemonRun present = run("boot", 0, 100 * kHourMs);
  ASSERT_TRUE(db.put(present, {minutes(0, 100 * kHourMs)}));
  const auto got = db.get(present, kPower, kOffset + 50 * kHourMs, kOffset + 51 * kHourMs);
  ASSERT_TRUE(got && got->size() == 1);
  EXPECT_LE(got->front().buckets.size(), 120U);
  const auto other = db.get(present, {"GPU-2", "power_draw_w", 0}, 0, INT64_MAX / 2);
  ASSERT_TRUE(other && other->size() == 1);
  EXPECT_THAT(other->front().buckets, IsEmpty());
}

TEST_F(HistoryDbTest, EarlierRunOfBootUsesCurrentClockOffset) {
  HistoryDb db(path());
  ASSERT_TRUE(db.put(run("boot", 0, kHourMs), {minutes(0, kHourMs)}));
  DaemonRun present = run("boot", 2 * kHourMs, 3 * kHourMs, kOffset + 5 * kHourMs);
  present.clock_steps = {{2 * kHourMs, 5 * kHourMs}};
  ASSERT_TRUE(db.put(present, {minutes(2 * kHourMs, 3 * kHourMs)}));
  for (const RunMinutes& past : all(db, present)) {
    EXPECT_EQ(past.run.wall_offset_ms, kOffset + 5 * kHourMs);
  }
  EXPECT_EQ(all(db, run("boot", 4 * kHourMs, 5 * kHourMs)).back().run.clock_steps,
            present.clock_steps);
}

TEST_F(HistoryDbTest, AfterAMonthThatWasRecordedItIsForgotten) {
  HistoryDb db(path());
  ASSERT_TRUE(db.put(run("oldest", 0, kHourMs), {minutes(0, kHourMs)}));
  ASSERT_TRUE(db.put(run("old", 0, 2 * kHourMs), {minutes(0, 2 * kHourMs)}));
  constexpr std::int64_t kNow = history::kMinuteRetentionMs - kHourMs;
  const DaemonRun present = run("new", 0, kNow);
  ASSERT_TRUE(db.put(present, {minutes(kNow - kHourMs, kNow)}));
  const auto past = all(db, present);
  ASSERT_EQ(past.size(), 2U);
  EXPECT_EQ(past[0].run.boot_id, "old") << "an hour of it is within the month";
  EXPECT_EQ(past[1].run.boot_id, "new");
}

TEST_F(HistoryDbTest, WrongWallClockKeepsOldMinutes) {
  HistoryDb db(path());
  ASSERT_TRUE(db.put(run("old", 0, kHourMs), {minutes(0, kHourMs)}));
  const std::int64_t years = std::int64_t{10} * 365 * 24 * kHourMs;
  for (const std::int64_t wrong : {years, -years}) {
    const DaemonRun present = run("wrong" + std::to_string(wrong), 0, kHourMs, kOffset + wrong);
    ASSERT_TRUE(db.put(present, {minutes(0, kHourMs)}));
  }
  const DaemonRun present = run("right again", 0, 3 * kHourMs);
  ASSERT_TRUE(db.put(present, {}));
  EXPECT_EQ(count(db, present), 180U);
}

TEST_F(HistoryDbTest, BeyondItsBytesTheOldestDaysGo) {
  constexpr std::int64_t kLimit = 300'000;
  HistoryDb db(path(), kLimit);
  DaemonRun present = run("boot", 0, 0);
  for (int day = 0; day < 20; ++day) {
    present.last_ms = (day + 1) * kHourMs * 24;
    std::vector<SeriesMinutes> put;
    for (std::uint16_t i = 0; i < 20; ++i) {
      SeriesMinutes some = minutes(day * kHourMs * 24, present.last_ms);
      some.key.element = i;
      put.push_back(std::move(some));
    }
    ASSERT_TRUE(db.put(present, put));
  }
  const auto past = all(db, present);
  ASSERT_EQ(past.size(), 1U);
  ASSERT_FALSE(past[0].buckets.empty());
  EXPECT_GT(past[0].buckets.front().at_ms, 24 * kHourMs);
  EXPECT_EQ(past[0].buckets.back().at_ms, present.last_ms - kMinuteMs);
  EXPECT_LT(std::filesystem::file_size(path()), 4 * kLimit);
}

TEST_F(HistoryDbTest, InvalidFileIsSetAsideAndLoggedOnce) {
  std::ofstream(path()) << std::string(5000, 'x');
  const CapturedLog log;
  HistoryDb db(path());
  const DaemonRun present = run("boot", 0, kHourMs);
  ASSERT_TRUE(db.put(present, {minutes(0, kHourMs)}));
  ASSERT_TRUE(db.put(present, {minutes(0, kHourMs)}));
  EXPECT_EQ(count(db, present), 60U);
  EXPECT_THAT(db.notes(), ElementsAre(HasSubstr("was replaced with a new one")));
  EXPECT_TRUE(std::filesystem::exists(path() + ".aside"));
  EXPECT_EQ(log.lines().size(), 1U);
}

TEST_F(HistoryDbTest, AnotherLayoutIsMovedAside) {
  {
    auto other = Database::open(path(), Durability::normal);
    ASSERT_TRUE(other && other->set_schema_version(99) && other->execute("CREATE TABLE x(y)"));
  }
  const CapturedLog log;
  HistoryDb db(path());
  const DaemonRun present = run("boot", 0, kHourMs);
  EXPECT_THAT(all(db, present), IsEmpty()) << "a reader moves it as well";
  EXPECT_THAT(db.notes(), ElementsAre(HasSubstr("layout 99")));
  ASSERT_TRUE(db.put(present, {minutes(0, kHourMs)}));
  EXPECT_EQ(count(db, present), 60U);
}

TEST_F(HistoryDbTest, DamagedBlockStartsEmptyDatabase) {
  const DaemonRun present = run("boot", 0, kHourMs);
  {
    HistoryDb db(path());
    ASSERT_TRUE(db.put(present, {minutes(0, kHourMs)}));
  }
  {
    auto raw = Database::open(path(), Durability::normal);
    ASSERT_TRUE(raw && raw->execute("UPDATE minutes SET points=x'ffff'"));
  }
  const CapturedLog log;
  HistoryDb db(path());
  EXPECT_THAT(all(db, present), IsEmpty());
  EXPECT_THAT(db.notes(), ElementsAre(HasSubstr("damaged")));
}

TEST_F(HistoryDbTest, MissingDirectoryIsLoggedOnceAndRetried) {
  const std::string later = directory_.in("later");
  const CapturedLog log;
  HistoryDb db(later + "/history.db");
  const DaemonRun present = run("boot", 0, kHourMs);
  EXPECT_FALSE(db.put(present, {minutes(0, kHourMs)}));
  EXPECT_FALSE(db.put(present, {minutes(0, kHourMs)}));
  EXPECT_EQ(log.lines().size(), 1U);
  EXPECT_THAT(db.notes(), ElementsAre(HasSubstr("not writing to disk")));
  std::filesystem::create_directory(later);
  EXPECT_TRUE(db.put(present, {minutes(0, kHourMs)}));
  EXPECT_THAT(db.notes(), IsEmpty());
  EXPECT_EQ(log.lines().size(), 2U) << "that it works again";
}

// The kernel refuses to let a file of this process grow, as a full disk does.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

TEST_F(HistoryDbTest, FullDiskLogsOnceAndKeepsStoredMinutes) {
  HistoryDb db(path());
  const DaemonRun early = run("boot", 0, kHourMs);
  ASSERT_TRUE(db.put(early, {minutes(0, kHourMs)}));
  const DaemonRun present = run("boot", 0, 200 * kHourMs);
  const CapturedLog log;
  {
    const FullDisk full(4096);
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(db.put(present, {minutes(0, 200 * kHourMs)}));
    EXPECT_EQ(log.lines().size(), 1U);
    EXPECT_THAT(db.notes(), ElementsAre(HasSubstr("not writing to disk")));
  }
  EXPECT_EQ(count(db, present), 60U);
  ASSERT_TRUE(db.put(present, {minutes(0, 200 * kHourMs)}));
  EXPECT_EQ(count(db, present), 200U * 60U);
}

// The processes that were on GPUs.
WallTime wall(std::int64_t second) {
  return WallTime(std::chrono::seconds(second));
}

const processes::ProcessSpanQuery kAllProcessSpans{wall(0), wall(100), {}, 100};

class ProcessSpanDbTest : public HistoryDbTest {
 protected:
  static processes::ProcessSpan stay(std::uint32_t pid, std::int64_t first, std::int64_t last) {
    return {.gpu = "GPU-1",
            .pid = pid,
            .started_boot_ms = 1000 + pid,
            .boot_id = "boot",
            .started = wall(first - 1),
            .uid = 1000,
            .user = "anna",
            .command = "python3",
            .lease = "L-1",
            .peak_memory_bytes = 1024,
            .first_seen = wall(first),
            .last_seen = wall(last)};
  }
  static std::vector<std::uint32_t> pids(HistoryDb& db, std::int64_t from, std::int64_t until,
                                         std::size_t most = 100) {
    const auto stays = db.get(processes::ProcessSpanQuery{wall(from), wall(until), {}, most});
    EXPECT_TRUE(stays) << stays.error().message;
    std::vector<std::uint32_t> out;
    for (const processes::ProcessSpan& one :
         stays ? *stays : std::vector<processes::ProcessSpan>{}) {
      out.push_back(one.pid);
    }
    return out;
  }
};

TEST_F(ProcessSpanDbTest, ProcessSpansSurviveRestart) {
  processes::ProcessSpan unknown = stay(9, 5, 6);
  unknown.started.reset();
  unknown.uid.reset();
  unknown.peak_memory_bytes.reset();
  {
    HistoryDb db(path());
    ASSERT_TRUE(db.put({stay(7, 10, 20), unknown}));
  }
  HistoryDb db(path());
  const auto back = db.get(kAllProcessSpans);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, (std::vector{stay(7, 10, 20), unknown}));
}

TEST_F(ProcessSpanDbTest, LaterPutExtendsSpanOfSameProcess) {
  HistoryDb db(path());
  ASSERT_TRUE(db.put({stay(7, 10, 20)}));
  processes::ProcessSpan later = stay(7, 30, 40);
  later.peak_memory_bytes = 512;
  later.lease.clear();
  later.over = true;
  ASSERT_TRUE(db.put({later}));
  const auto back = db.get(kAllProcessSpans);
  ASSERT_EQ(back->size(), 1U);
  EXPECT_EQ(back->front().first_seen, wall(10));
  EXPECT_EQ(back->front().last_seen, wall(40));
  EXPECT_EQ(back->front().peak_memory_bytes, 1024);
  EXPECT_EQ(back->front().lease, "L-1");
  EXPECT_TRUE(back->front().over);
}

TEST_F(ProcessSpanDbTest, QueryReturnsOverlappingSpansNewestFirst) {
  HistoryDb db(path());
  ASSERT_TRUE(db.put({stay(1, 10, 20), stay(2, 15, 40), stay(3, 30, 50)}));
  EXPECT_THAT(pids(db, 0, 100), ElementsAre(3, 2, 1));
  EXPECT_THAT(pids(db, 20, 30), ElementsAre(2, 1));
  EXPECT_THAT(pids(db, 41, 100), ElementsAre(3));
  EXPECT_THAT(pids(db, 0, 100, 1), ElementsAre(3, 2)) << "one more than asked for";
  EXPECT_TRUE(db.get(processes::ProcessSpanQuery{wall(0), wall(100), {"GPU-2"}, 100})->empty());
}

TEST_F(ProcessSpanDbTest, SpansArePrunedAfterOneMonth) {
  constexpr std::int64_t kMonth = std::int64_t{30} * 24 * 3600;
  HistoryDb db(path());
  ASSERT_TRUE(db.put({stay(1, 10, 20)}));
  ASSERT_TRUE(db.put({stay(2, kMonth, kMonth)}));
  EXPECT_THAT(pids(db, 0, 2 * kMonth), ElementsAre(2, 1));
  ASSERT_TRUE(db.put({stay(3, kMonth + 3700, kMonth + 3700)}));
  EXPECT_THAT(pids(db, 0, 2 * kMonth), ElementsAre(3, 2));
}

TEST_F(ProcessSpanDbTest, AFileOfAnEarlierGpuyardGetsTheTables) {
  {
    HistoryDb db(path());
    ASSERT_TRUE(db.put(run("boot", 0, kHourMs), {minutes(0, kHourMs)}));
  }
  {
    auto database = Database::open(path(), Durability::normal);
    ASSERT_TRUE(database->execute("DROP TABLE stays; DROP TABLE spells"));
  }
  HistoryDb db(path());
  ASSERT_TRUE(db.put({stay(1, 10, 20)}));
  ASSERT_TRUE(db.put(std::vector<bottleneck::BottleneckSpan>{{.gpu = "GPU-1"}}));
  EXPECT_EQ(count(db, run("boot", 0, kHourMs)), 60U);
}

// Why the GPUs were slow.
bottleneck::BottleneckSpan bottleneck_span(std::int64_t first, std::int64_t last) {
  Bottleneck what;
  what.cause = BottleneckCause::heat;
  what.inferred = true;
  what.share_percent = 38;
  what.brief = "heat 38%";
  what.text = "is held back by heat";
  what.advice = "Look at its fans.";
  what.not_known = {"starved: PCIe: not supported"};
  return {"GPU-1", what, wall(first), wall(last), false};
}

std::vector<bottleneck::BottleneckSpan> all_spells(HistoryDb& db) {
  const auto spells =
      db.get(bottleneck::BottleneckSpanQuery{wall(0), WallTime::max(), {}, 1'000'000});
  EXPECT_TRUE(spells) << spells.error().message;
  return spells ? *spells : std::vector<bottleneck::BottleneckSpan>{};
}

TEST_F(HistoryDbTest, LatestBottleneckSpanSurvivesRestart) {
  bottleneck::BottleneckSpan later = bottleneck_span(10, 30);
  later.over = true;
  {
    HistoryDb db(path());
    ASSERT_TRUE(db.put(std::vector{bottleneck_span(10, 20)}));
    ASSERT_TRUE(db.put(std::vector{later}));
  }
  HistoryDb db(path());
  EXPECT_THAT(all_spells(db), ElementsAre(later));
  EXPECT_THAT(*db.get(bottleneck::BottleneckSpanQuery{wall(31), wall(40), {}, 9}), IsEmpty());
}

TEST_F(HistoryDbTest, OldestExcessBottleneckSpansArePruned) {
  constexpr std::int64_t kMore = 50;
  HistoryDb db(path());
  std::vector<bottleneck::BottleneckSpan> many;
  for (std::int64_t i = 0; i < kMaxBottleneckSpans + kMore; ++i) {
    many.push_back({.gpu = "GPU-1", .first_seen = wall(i), .last_seen = wall(i)});
  }
  ASSERT_TRUE(db.put(many));
  const auto kept = all_spells(db);
  ASSERT_EQ(kept.size(), static_cast<std::size_t>(kMaxBottleneckSpans) + 1);
  EXPECT_EQ(kept.back().first_seen, wall(kMore - 1));
}

// A newer version of gpuyard may have written the cause.
TEST_F(HistoryDbTest, UnknownBottleneckCauseIsSkipped) {
  {
    HistoryDb db(path());
    ASSERT_TRUE(db.put(std::vector{bottleneck_span(10, 20), bottleneck_span(30, 40)}));
  }
  {
    auto raw = Database::open(path(), Durability::normal);
    ASSERT_TRUE(raw &&
                raw->execute("UPDATE spells SET cause='cosmic_rays' WHERE first_seen>20000"));
  }
  HistoryDb db(path());
  EXPECT_THAT(all_spells(db), ElementsAre(bottleneck_span(10, 20)));
}

}  // namespace
}  // namespace gpuyard::store
