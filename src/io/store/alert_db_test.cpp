#include "io/store/alert_db.h"

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/store/migrations.h"

namespace gpuyard::store {
namespace {

using andon::Alert;

Alert alert(std::uint64_t number) {
  Alert one;
  one.number = number;
  one.rule = "thermal";
  one.gpu = "GPU-0";
  one.index = 3;
  one.gpu_name = "NVIDIA H100";
  one.pci_address = "0000:01:00.0";
  one.severity = 61;
  one.value = 91.5;
  one.message =
      "GPU 3 is at 91.5 \xc2\xb0"
      "C";
  one.advice = "Cool it.";
  one.fired = WallTime(std::chrono::milliseconds(1000));
  one.notified_severity = 61;
  one.notified_sinks = {"log", "ops"};
  return one;
}

Alert resolved(Alert one) {
  one.state = andon::AlertState::resolved;
  one.resolved = WallTime(std::chrono::milliseconds(9000));
  one.end_reason = "its rule was removed";
  return one;
}

class AlertDbTest : public ::testing::Test {
 protected:
  void save(andon::AlertTransaction entry) {
    bool saved = false;
    EXPECT_TRUE(db_.save(std::move(entry), [&](const Result<void>& done) { saved = done.ok(); }));
    worker_.run_all();
    EXPECT_TRUE(saved);
  }
  andon::SavedAlerts load() {
    andon::SavedAlerts kept;
    EXPECT_TRUE(db_.load([&](const Result<andon::SavedAlerts>& loaded) {
      ASSERT_TRUE(loaded) << loaded.error().message;
      kept = *loaded;
    }));
    worker_.run_all();
    return kept;
  }
  std::vector<std::uint64_t> history(andon::AlertHistoryQuery question) {
    std::vector<std::uint64_t> numbers;
    EXPECT_TRUE(
        db_.query_history(std::move(question), [&](const Result<std::vector<Alert>>& alerts) {
          ASSERT_TRUE(alerts) << alerts.error().message;
          for (const Alert& one : *alerts) numbers.push_back(one.number);
        }));
    worker_.run_all();
    return numbers;
  }

  ScratchDirectory directory_;
  CapturedLog log_;
  ManualWorker worker_;
  StateStore store_{worker_, worker_, directory_.in("state.db"), kStateMigrations};
  AlertDb db_{store_};
};

TEST_F(AlertDbTest, FiringAlertsRoundTrip) {
  Alert acknowledged = alert(2);
  acknowledged.acknowledged = {"uid 0", "on it", WallTime(std::chrono::milliseconds(5000))};
  acknowledged.xid = 79;
  acknowledged.simulated = true;
  Alert of_node = alert(3);
  of_node.gpu.clear();
  of_node.index.reset();
  of_node.notified_severity.reset();
  save({.alerts = {alert(1), acknowledged, of_node}});
  const auto kept = load();
  EXPECT_EQ(kept.firing, (std::vector{alert(1), acknowledged, of_node}));
  EXPECT_EQ(kept.last_number, 3U);
}

TEST_F(AlertDbTest, ResolvedAlertIsHistoryAndNumberStaysReserved) {
  save({.alerts = {alert(1), alert(2)}});
  save({.alerts = {resolved(alert(2))}});
  const auto kept = load();
  EXPECT_EQ(kept.firing, std::vector{alert(1)});
  EXPECT_EQ(kept.last_number, 2U);
  EXPECT_EQ(history({}), (std::vector<std::uint64_t>{2, 1}));
  EXPECT_EQ(history({.before = 2}), std::vector<std::uint64_t>{1});
  EXPECT_EQ(history({.limit = 1}), std::vector<std::uint64_t>{2});
  EXPECT_TRUE(history({.rule = "memory"}).empty());
  EXPECT_TRUE(history({.gpus = "GPU-1"}).empty());
  EXPECT_EQ(history({.rule = "thermal", .gpus = "GPU-0"}).size(), 2U);
}

TEST_F(AlertDbTest, OutgoingStaysInItsOrderUntilItIsDelivered) {
  save({.messages = {{"b", "ops", "1", 4}, {"c", "log", "3", 6}}});
  save({.messages = {{"a", "ops", "2", 5}}, .delivered = {"b"}});
  const auto kept = load();
  EXPECT_EQ(kept.messages,
            (std::vector<andon::OutboxMessage>{{"a", "ops", "2", 5}, {"c", "log", "3", 6}}));
}

TEST_F(AlertDbTest, SilencesComeAndGo) {
  const andon::Silence one{"s1",
                           "thermal",
                           "",
                           "uid 0",
                           "maintenance",
                           WallTime(std::chrono::milliseconds(1)),
                           WallTime(std::chrono::milliseconds(2))};
  andon::Silence other = one;
  other.id = "s2";
  save({.silences = {one, other}});
  save({.unsilenced = {"s2"}});
  EXPECT_EQ(load().silences, std::vector{one});
}

TEST_F(AlertDbTest, FullSaveReplacesAllButHistory) {
  save({.alerts = {alert(1), resolved(alert(2))}, .messages = {{"a", "ops", "1", 1}}});
  save({.everything = true, .alerts = {alert(3)}});
  const auto kept = load();
  EXPECT_EQ(kept.firing, std::vector{alert(3)});
  EXPECT_TRUE(kept.messages.empty());
  EXPECT_EQ(history({}), (std::vector<std::uint64_t>{3, 2}));
}

TEST_F(AlertDbTest, PruningKeepsFiringAlerts) {
  std::vector<Alert> many = {alert(1)};
  for (std::uint64_t number = 2; number < 10'010; ++number) {
    many.push_back(resolved(alert(number)));
  }
  save({.alerts = many});
  EXPECT_EQ(history({.before = 13}), (std::vector<std::uint64_t>{12, 11, 10, 1}));
}

TEST_F(AlertDbTest, HistoryIsFilteredByGpuAndRule) {
  std::vector<Alert> many;
  for (std::uint64_t number = 1; number <= 30; ++number) {
    many.push_back(resolved(alert(number)));
    many.back().gpu = fmt::format("GPU-{}", number % 3);
    if (number % 2 == 0) many.back().rule = "memory";
  }
  save({.alerts = many});
  EXPECT_EQ(history({.gpus = "GPU-0,GPU-2", .limit = 3}), (std::vector<std::uint64_t>{30, 29, 27}));
  EXPECT_EQ(history({.rule = "memory", .limit = 2}), (std::vector<std::uint64_t>{30, 28}));
  EXPECT_EQ(history({.rule = "memory", .gpus = "GPU-1", .before = 28}),
            (std::vector<std::uint64_t>{22, 16, 10, 4}));
}

TEST_F(AlertDbTest, EmptyTransactionDoesNotWrite) {
  save({.alerts = {alert(1)}});
  const auto before = std::filesystem::file_size(directory_.in("state.db-wal"));
  save({});
  EXPECT_EQ(std::filesystem::file_size(directory_.in("state.db-wal")), before);
}

TEST_F(AlertDbTest, NumberJumpKeepsHistory) {
  save({.alerts = {resolved(alert(1)), resolved(alert(2))}});
  save({.alerts = {resolved(alert(1'700'000'000))}});
  EXPECT_EQ(history({}), (std::vector<std::uint64_t>{1'700'000'000, 2, 1}));
}

}  // namespace
}  // namespace gpuyard::store
