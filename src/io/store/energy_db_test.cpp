#include "io/store/energy_db.h"

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/store/migrations.h"

namespace gpuyard::store {
namespace {

using energy::EnergyTransaction;
using energy::LedgerState;
using std::chrono::milliseconds;
using std::chrono::seconds;

energy::SavedAccount account(const std::string& uuid, std::optional<std::int64_t> counter_mj) {
  energy::SavedAccount kept;
  kept.uuid = uuid;
  kept.state = {{"boot", "535", uuid == "GPU-1"}, 3,          WallTime(milliseconds(1000)),
                WallTime(milliseconds(2000)),     4,          TimePoint(seconds(5)),
                WallTime(milliseconds(6000)),     counter_mj, {7, 8, 9, seconds(10)}};
  return kept;
}

energy::Window window(const std::string& id) {
  energy::Window window{id,
                        "train \xc3\xa9",
                        4'000'000'000U,
                        "boot",
                        true,
                        TimePoint(seconds(11)),
                        WallTime(milliseconds(12'000)),
                        std::chrono::hours(24),
                        {}};
  window.gpus = {{"GPU-1", {1, 2, seconds(3), 4, TimePoint(seconds(5))}, 700'000},
                 {"GPU-0", {-1, 0, seconds(0), 1, TimePoint(seconds(6))}, std::nullopt}};
  return window;
}

class EnergyDbTest : public ::testing::Test {
 protected:
  LedgerState load() {
    std::optional<Result<LedgerState>> loaded;
    EXPECT_TRUE(db_.load([&](Result<LedgerState> books) { loaded.emplace(std::move(books)); }));
    worker_.run_all();
    EXPECT_TRUE(loaded && *loaded);
    return loaded && *loaded ? **loaded : LedgerState{};
  }
  void save(EnergyTransaction changes) {
    bool saved = false;
    EXPECT_TRUE(db_.save(std::move(changes), [&](const Result<void>& done) { saved = done.ok(); }));
    worker_.run_all();
    EXPECT_TRUE(saved);
  }

  ScratchDirectory directory_;
  CapturedLog log_;
  ManualWorker worker_;
  StateStore store_{worker_, worker_, directory_.in("state.db"), kStateMigrations};
  EnergyDb db_{store_};
};

TEST_F(EnergyDbTest, NewLedgerIsEmpty) {
  EXPECT_EQ(load(), LedgerState{});
}

TEST_F(EnergyDbTest, SavedLedgerRoundTrips) {
  const LedgerState books{{account("GPU-0", 12), account("GPU-1", std::nullopt)},
                          {window("a"), window("b")}};
  save({false, books, {}});
  EXPECT_EQ(load(), books);
}

TEST_F(EnergyDbTest, LaterSaveReplacesNamedAccountsAndWindows) {
  save({false, {{account("GPU-0", 12)}, {window("a"), window("b")}}, {}});
  energy::Window changed = window("b");
  changed.gpus[1].peak_mw = 5;
  save({false, {{account("GPU-0", 99)}, {changed}}, {"a"}});
  EXPECT_EQ(load(), (LedgerState{{account("GPU-0", 99)}, {changed}}));
}

TEST_F(EnergyDbTest, SavingEverythingForgetsOtherWindowsButNoGpu) {
  save({false, {{account("GPU-0", 12)}, {window("a")}}, {}});
  save({true, {{account("GPU-1", 1)}, {window("c")}}, {}});
  EXPECT_EQ(load(), (LedgerState{{account("GPU-0", 12), account("GPU-1", 1)}, {window("c")}}));
}

}  // namespace
}  // namespace gpuyard::store
