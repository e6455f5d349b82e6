#include "core/usage/usage_recorder.h"

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"
#include "core/usage/usage_storage_for_tests.h"

namespace gpuyard::usage {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A GPU that uses 100 W.
class FakeUsageReader final : public UsageReader {
 public:
  explicit FakeUsageReader(ManualLoop& loop) : loop_(loop), start_(loop.now()) {}
  void read_fresh(const std::vector<DeviceId>& gpus,
                  std::function<void(const UsageSnapshot&)> done) override {
    ++edges;
    asked = gpus;
    loop_.post([this, done = std::move(done)] { done(now()); });
  }
  UsageSnapshot now() const {
    const EnergyTotal counted{loop_.now(), (loop_.now() - start_) / milliseconds(1) * 100, 0, {}};
    return {loop_.now(), loop_.wall(), {{"GPU-0", counted, {}, {}}}};
  }

  int edges = 0;
  std::vector<DeviceId> asked;  // last

 private:
  ManualLoop& loop_;
  TimePoint start_;
};

class UsageRecorderTest : public ::testing::Test {
 protected:
  void tick(int times = 1) {
    for (int i = 0; i < times; ++i) {
      loop_.advance(seconds(1));
      book_->record(reads_.now());
    }
    loop_.run_posted();
  }
  void begin(const std::string& lease) {
    book_->begin({lease, 1000, {"GPU-0"}, loop_.now()});
    loop_.run_posted();
  }
  void end(const std::string& lease) {
    book_->end({lease, 1000, {"GPU-0"}, {}}, loop_.now());
    loop_.run_posted();
  }

  ManualLoop loop_;
  FakeUsageStorage archive_{loop_};
  FakeUsageReader reads_{loop_};
  std::optional<UsageRecorder> book_{std::in_place, loop_, reads_, archive_};
};

TEST_F(UsageRecorderTest, LeaseBoundariesReadFreshAndEndSavesImmediately) {
  book_->open({});
  tick(3);
  loop_.advance(milliseconds(700));
  begin("a");
  tick(2);
  loop_.advance(milliseconds(250));
  end("a");
  EXPECT_EQ(reads_.edges, 2);
  EXPECT_EQ(reads_.asked, std::vector<DeviceId>{"GPU-0"});
  EXPECT_EQ(archive_.energy_of("a"), 225'000);
  EXPECT_EQ(archive_.saves, 1);
  EXPECT_EQ(book_->usage_of("a")->energy_mj, 225'000);
}

TEST_F(UsageRecorderTest, OpenUsageIsSavedPeriodicallyAndAtStop) {
  book_->open({});
  begin("a");
  tick(59);
  EXPECT_EQ(archive_.saves, 0);
  tick(2);
  EXPECT_EQ(archive_.saves, 1);
  EXPECT_GE(archive_.energy_of("a"), 5'900'000);
  tick(9);
  book_->stop();
  loop_.run_posted();
  EXPECT_EQ(archive_.energy_of("a"), 7'000'000);
  EXPECT_TRUE(archive_.growing.contains("a")) << "nothing of it is folded";
}

TEST_F(UsageRecorderTest, CrashLosesAtMostLastMinute) {
  const TimePoint granted = loop_.now();
  book_->open({});
  begin("a");
  tick(100);
  book_.reset();
  loop_.advance(seconds(10));
  book_.emplace(loop_, reads_, archive_);
  book_->record(reads_.now());
  const auto today = std::chrono::floor<std::chrono::days>(loop_.wall());
  book_->open({{{"a", 1000, {"GPU-0"}, granted}}, {}, today, false});
  tick(10);
  const LeaseUsage use = *book_->usage_of("a");
  EXPECT_EQ(use.held, seconds(120));
  EXPECT_GE(use.energy_mj, 5'900'000 + 1'000'000);
  EXPECT_LE(use.energy_mj, 6'000'000 + 1'000'000);
  EXPECT_EQ(use.unknown, seconds(120) - milliseconds(*use.energy_mj / 100)) << "at 100 W";
}

// A daemon that had just started said 0 J of a lease that had used more.
TEST_F(UsageRecorderTest, EarlierUsageIsUnknownUntilLoaded) {
  const TimePoint granted = loop_.now();
  book_->open({});
  begin("a");
  tick(100);
  book_.emplace(loop_, reads_, archive_);
  archive_.trouble = Error{Errc::busy, "locked"};
  book_->record(reads_.now());
  const auto today = std::chrono::floor<std::chrono::days>(loop_.wall());
  book_->open({{{"a", 1000, {"GPU-0"}, granted}}, {}, today, false});
  begin("b");
  tick(3);
  EXPECT_FALSE(book_->usage_of("a"));
  EXPECT_TRUE(book_->usage_of("b")) << "all of it is known";
  archive_.trouble.reset();
  tick(10);
  ASSERT_TRUE(book_->usage_of("a"));
  EXPECT_GE(book_->usage_of("a")->energy_mj, 5'900'000);
}

TEST_F(UsageRecorderTest, FailedLoadIsRetriedBeforeAnySave) {
  archive_.trouble = Error{Errc::busy, "locked"};
  book_->open({});
  begin("a");
  tick(3);
  end("a");
  tick(70);
  EXPECT_EQ(archive_.saves, 0);
  EXPECT_GT(archive_.loads, 10);
  archive_.trouble.reset();
  tick(70);
  EXPECT_EQ(archive_.energy_of("a"), 300'000);
}

TEST_F(UsageRecorderTest, FailedSaveIsRetriedOnce) {
  book_->open({});
  tick();
  archive_.trouble = Error{Errc::unavailable, "disk full"};
  begin("a");
  tick(3);
  end("a");
  EXPECT_TRUE(archive_.rows.empty());
  archive_.trouble.reset();
  tick(2);
  EXPECT_EQ(archive_.energy_of("a"), 300'000);
  const int saves = archive_.saves;
  tick(10);
  EXPECT_EQ(archive_.saves, saves) << "kept once";
  EXPECT_TRUE(archive_.growing.contains("a")) << "it was not kept before";
}

TEST_F(UsageRecorderTest, NegligibleLeaseIsCompactedAfterSave) {
  book_->open({});
  tick(3);
  begin("tiny");
  end("tiny");
  tick();
  EXPECT_EQ(archive_.leases(), (std::set<std::string>{"tiny"})) << "first it is kept";
  archive_.trouble = Error{Errc::unavailable, "disk full"};
  tick(61);
  archive_.trouble.reset();
  tick(61);
  EXPECT_EQ(archive_.leases(), (std::set<std::string>{"", "folded:1000"}));
  const int saves = archive_.saves;
  tick(61);
  EXPECT_EQ(archive_.saves, saves + 1);
}

TEST_F(UsageRecorderTest, QueryIncludesUnsavedUsageWithoutSaving) {
  book_->open({});
  begin("a");
  tick(10);
  bool answered = false;
  book_->query({}, [&](const Result<UsageReport>& got) { answered = got.ok(); });
  EXPECT_FALSE(answered) << "never inside the call";
  tick(2);
  EXPECT_TRUE(answered);
  ASSERT_EQ(archive_.unsaved_rows.size(), 1U);
  EXPECT_EQ(archive_.unsaved_rows[0].counters.energy_mj, 1'000'000);
  EXPECT_EQ(archive_.saves, 0);
}

TEST_F(UsageRecorderTest, FullQueueIsReported) {
  book_->open({});
  tick();
  archive_.full = true;
  std::optional<Errc> code;
  book_->query({}, [&](const Result<UsageReport>& got) { code = got.error().code; });
  loop_.run_posted();
  EXPECT_EQ(code, Errc::unavailable);
}

TEST_F(UsageRecorderTest, ReplyAfterDestructionIsIgnored) {
  book_->open({});
  book_->begin({"a", 1000, {"GPU-0"}, loop_.now()});
  book_.reset();
  loop_.run_posted();
  EXPECT_TRUE(archive_.rows.empty());
}

}  // namespace
}  // namespace gpuyard::usage
