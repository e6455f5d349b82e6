#include "core/energy/meter.h"

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_loop_for_tests.h"
#include "core/energy/archive_for_tests.h"

namespace gpuyard::energy {
namespace {

using std::chrono::seconds;

class MeterTest : public ::testing::Test {
 protected:
  void SetUp() override { meter_.start(); }

  void tick(int times = 1) {
    for (int i = 0; i < times; ++i) {
      loop_.advance(seconds(1));
      *reads_.gpus[0].counter_mj += 100'000;
      meter_.on_snapshot(reads_.now());
    }
  }
  Meter::OnWindow into(std::optional<Result<WindowResult>>& reply) {
    return [&reply](Result<WindowResult> result) { reply.emplace(std::move(result)); };
  }
  std::string begin() {
    std::optional<Result<WindowResult>> reply;
    meter_.begin({}, into(reply));
    loop_.run_posted();
    archive_.answer_saves();
    return reply && *reply ? (*reply)->window.id : "";
  }

  ManualLoop loop_;
  FakeEnergyStorage archive_;
  FakeFreshReader reads_{loop_};
  CapturedLog log_;
  Meter meter_{loop_, reads_, archive_, "boot-a"};
};

TEST_F(MeterTest, BeginReadsFreshAndAnswersAfterCommit) {
  archive_.answer_load(LedgerState{});
  tick();
  std::optional<Result<WindowResult>> reply;
  meter_.begin({.name = "x"}, into(reply));
  EXPECT_TRUE(archive_.saves.empty()) << "nothing before the reading";
  loop_.run_posted();
  ASSERT_EQ(archive_.saves.size(), 1U);
  EXPECT_EQ(archive_.saves[0].state.windows.size(), 1U);
  EXPECT_FALSE(reply);
  archive_.answer_saves();
  ASSERT_TRUE(reply && *reply);
  EXPECT_EQ((*reply)->window.name, "x");
}

TEST_F(MeterTest, SlowDiskDelaysReplyOnlyBriefly) {
  archive_.answer_load(LedgerState{});
  tick();
  std::optional<Result<WindowResult>> reply;
  meter_.begin({}, into(reply));
  loop_.run_posted();
  EXPECT_FALSE(reply);
  loop_.advance(Meter::kDiskTimeout);
  ASSERT_TRUE(reply && *reply);
  reply.reset();
  archive_.answer_saves();
  EXPECT_FALSE(reply) << "answered twice";
}

TEST_F(MeterTest, AWindowRunsUntilItIsEnded) {
  archive_.answer_load(LedgerState{});
  tick();
  const std::string id = begin();
  tick(10);
  *reads_.gpus[0].counter_mj += 5;  // since the last tick: only a fresh reading sees it
  loop_.advance(std::chrono::milliseconds(1));
  std::optional<Result<WindowResult>> reply;
  meter_.measure(id, into(reply));
  loop_.run_posted();
  ASSERT_TRUE(reply && *reply);
  EXPECT_EQ((*reply)->gpus[0].energy_mj, 1'000'005);
  meter_.end(id, into(reply));
  loop_.run_posted();
  archive_.answer_saves();
  EXPECT_EQ((*reply)->gpus[0].energy_mj, 1'000'005);
  EXPECT_EQ(archive_.saves.back().ended_windows, std::vector<std::string>{id});
  meter_.measure(id, into(reply));
  EXPECT_EQ(reply->error().code, Errc::not_found);
}

TEST_F(MeterTest, StateIsSavedPeriodicallyAndAtStop) {
  archive_.answer_load(LedgerState{});
  tick(11);
  archive_.answer_saves();
  tick(10);
  EXPECT_EQ(archive_.saves.size(), 2U);
  meter_.stop();
  ASSERT_EQ(archive_.saves.size(), 3U);
  EXPECT_EQ(archive_.saves[2].state.accounts[0].state.amounts.device_mj(), 2'000'000);
}

TEST_F(MeterTest, ConcurrentWindowsShareTwoSaves) {
  archive_.answer_load(LedgerState{});
  tick();
  int answered = 0;
  for (std::uint32_t user = 1; user <= 200; ++user) {
    meter_.begin({.owner = user},
                 [&](const Result<WindowResult>& reply) { answered += reply.ok(); });
  }
  loop_.run_posted();
  EXPECT_EQ(archive_.saves.size(), 1U);
  archive_.answer_saves();
  EXPECT_EQ(archive_.saves.size(), 2U);
  archive_.answer_saves();
  EXPECT_EQ(answered, 200);
  EXPECT_EQ(archive_.saves.size(), 2U);
}

TEST_F(MeterTest, FailedSaveIsFollowedByFullSave) {
  archive_.answer_load(LedgerState{});
  tick();
  begin();
  tick(10);
  archive_.answer_saves();
  tick(10);
  EXPECT_FALSE(archive_.saves.back().everything);
  archive_.answer_saves(Error{Errc::unavailable, "disk full"});
  tick(10);
  EXPECT_TRUE(archive_.saves.back().everything);
  EXPECT_EQ(archive_.saves.back().state.windows.size(), 1U);
}

TEST_F(MeterTest, FailedLoadIsRetriedBeforeAnySave) {
  archive_.notes_ = {"state.db: locked"};
  archive_.answer_load(Error{Errc::busy, "locked"});
  tick();
  const std::string id = begin();
  EXPECT_FALSE(id.empty()) << "a window is measured all the same";
  EXPECT_EQ(meter_.notes().size(), 2U);
  tick(10);
  EXPECT_TRUE(archive_.saves.empty());
  ASSERT_EQ(archive_.loads, 2);

  LedgerState books;
  books.accounts = {{"GPU-0", {.session = {"boot-a", "535"}, .amounts = {.unattributed_mj = 7}}}};
  books.accounts[0].state.last_reading_at = loop_.now() - std::chrono::hours(1);
  archive_.notes_.clear();
  archive_.answer_load(books);
  EXPECT_TRUE(meter_.notes().empty());
  tick(10);
  ASSERT_EQ(archive_.saves.size(), 1U);
  EXPECT_TRUE(archive_.saves[0].everything);
  EXPECT_EQ(archive_.saves[0].state.accounts[0].state.amounts.unattributed_mj, 7 + 1'800'000)
      << "from its first reading to the last before it was stored";
}

TEST_F(MeterTest, ExpiredWindowIsLogged) {
  archive_.answer_load(LedgerState{});
  tick();
  std::optional<Result<WindowResult>> reply;
  meter_.begin({.name = "short", .owner = 1000, .max_duration = seconds(5)}, into(reply));
  loop_.run_posted();
  archive_.answer_saves();
  tick(20);
  EXPECT_TRUE(meter_.ledger().results(loop_.now()).empty());
  EXPECT_NE(log_.lines().back().find("\"short\" of uid 1000 has ended"), std::string::npos);
}

TEST_F(MeterTest, ReplyAfterDestructionIsIgnored) {
  archive_.answer_load(LedgerState{});
  tick();
  {
    Meter other(loop_, reads_, archive_, "boot-a");
    other.start();
    other.begin({}, [](const Result<WindowResult>&) { FAIL(); });
  }
  loop_.run_posted();
  archive_.answer_load(LedgerState{});
}

}  // namespace
}  // namespace gpuyard::energy
