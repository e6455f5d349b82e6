#include "io/store/unreadable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/store/alert_db.h"
#include "io/store/control_tables.h"
#include "io/store/energy_db.h"
#include "io/store/machine_db.h"
#include "io/store/migrations.h"
#include "io/store/state_db.h"
#include "io/store/state_store.h"
#include "io/store/token_db.h"

namespace gpuyard::store {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A state.db in which each test corrupts a row.
class UnreadableRows : public ::testing::Test {
 protected:
  template <class Answer>
  Answer ask(std::function<Result<Answer>(Database&)> query) {
    Answer answer{};
    EXPECT_TRUE(store_->load<Answer>(std::move(query), [&](Result<Answer> got) {
      ASSERT_TRUE(got) << got.error().message;
      answer = *std::move(got);
    }));
    worker_.run_all();
    return answer;
  }
  void run(StateDb::Work work) {
    ASSERT_TRUE(store_->run(Requester::daemon(), std::move(work), [](const Result<void>& done) {
      ASSERT_TRUE(done) << done.error().message;
    }));
    worker_.run_all();
  }
  void execute(const char* statements) {
    run([statements](Database& database) { return database.execute(statements); });
  }
  struct StoredRow {
    std::string origin;
    std::string key;
    std::string error;
    std::string content;
  };
  std::vector<StoredRow> kept() {
    return ask<std::vector<StoredRow>>([](Database& database) -> Result<std::vector<StoredRow>> {
      std::vector<StoredRow> rows;
      auto read = read_into(
          rows, database, "SELECT origin, key, error, content FROM unreadable_rows ORDER BY number",
          [](auto& row, auto& one) { row(one.origin, one.key, one.error, one.content); });
      if (!read) return std::move(read).error();
      return rows;
    });
  }
  void restart() {
    store_.reset();
    store_ =
        std::make_unique<StateStore>(worker_, worker_, directory_.in("state.db"), kStateMigrations);
  }

  ScratchDirectory directory_;
  CapturedLog log_;
  ManualWorker worker_;
  std::unique_ptr<StateStore> store_ =
      std::make_unique<StateStore>(worker_, worker_, directory_.in("state.db"), kStateMigrations);
};

TEST_F(UnreadableRows, TokenWithUnreadableRightsIsDropped) {
  const auth::Token good{.id = "good", .digest = "d", .name = "n", .made_by = "uid 7"};
  auth::Token spoilt = good;
  spoilt.id = "spoilt";
  spoilt.gpus = {"GPU-1"};
  run([&](Database& database) {
    return save_tokens(database, {.tokens = {good, spoilt}, .removed_ids = {}});
  });
  execute("UPDATE tokens SET gpus = '[\"GPU-1\"' WHERE id = 'spoilt'");
  const auto tokens = ask<std::vector<auth::Token>>(&load_tokens);
  ASSERT_EQ(tokens.size(), 1U);
  EXPECT_EQ(tokens[0].id, "good");
  const auto rows = kept();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].origin, "tokens");
  EXPECT_EQ(rows[0].key, "spoilt");
  EXPECT_THAT(rows[0].error, HasSubstr("column"));
  EXPECT_THAT(
      store_->notes(),
      ElementsAre(HasSubstr("row spoilt of the table tokens could not be read (column gpus: ")));
  EXPECT_THAT(
      log_.lines(),
      Contains(HasSubstr("row spoilt of the table tokens could not be read (column gpus: ")));
}

TEST_F(UnreadableRows, SavedContentCanBeReinserted) {
  const auth::Token token{.id = "one", .digest = "d", .name = "it's", .made_by = "uid 7"};
  run([&](Database& database) {
    return save_tokens(database, {.tokens = {token}, .removed_ids = {}});
  });
  execute("UPDATE tokens SET scope = 'reat'");
  EXPECT_THAT(ask<std::vector<auth::Token>>(&load_tokens), IsEmpty());
  const std::string back = "INSERT INTO tokens VALUES(" + kept().at(0).content + ")";
  execute(back.c_str());
  execute("UPDATE tokens SET scope = 'read'");
  const auto tokens = ask<std::vector<auth::Token>>(&load_tokens);
  ASSERT_EQ(tokens.size(), 1U);
  EXPECT_EQ(tokens[0].name, "it's");
}

TEST_F(UnreadableRows, AreReportedAfterARestart) {
  const auth::Token token{.id = "one", .digest = "d", .name = "n", .made_by = "uid 7"};
  run([&](Database& database) {
    return save_tokens(database, {.tokens = {token}, .removed_ids = {}});
  });
  execute("UPDATE tokens SET scope = 'reat'");
  ask<std::vector<auth::Token>>(&load_tokens);
  restart();
  EXPECT_THAT(ask<std::vector<auth::Token>>(&load_tokens), IsEmpty());
  EXPECT_THAT(store_->notes(), ElementsAre(HasSubstr("1 unreadable row is in the table")));
  execute("DELETE FROM unreadable_rows");
  restart();
  ask<std::vector<auth::Token>>(&load_tokens);
  EXPECT_THAT(store_->notes(), IsEmpty());
}

TEST_F(UnreadableRows, NumberOfAnAlertIsNotReused) {
  andon::Alert good;
  good.number = 7;
  good.rule = "thermal";
  andon::Alert spoilt = good;
  spoilt.number = 8;
  run([&](Database& database) { return save_alerts(database, {.alerts = {good, spoilt}}); });
  execute("UPDATE alerts SET state = 'fjring' WHERE number = 8");
  const auto first = ask<andon::SavedAlerts>(&load_alerts);
  EXPECT_THAT(first.firing, ElementsAre(good));
  EXPECT_EQ(first.last_number, 8U);
  EXPECT_EQ(ask<andon::SavedAlerts>(&load_alerts).last_number, 8U);
}

TEST_F(UnreadableRows, ResolvedAlertIsLeftOutOfTheHistory) {
  andon::Alert good;
  good.number = 7;
  good.state = andon::AlertState::resolved;
  andon::Alert spoilt = good;
  spoilt.number = 8;
  run([&](Database& database) { return save_alerts(database, {.alerts = {good, spoilt}}); });
  execute("UPDATE alerts SET heard_by = '[' WHERE number = 8");
  const auto history = ask<std::vector<andon::Alert>>(
      [](Database& database) { return load_alert_history(database, {}); });
  EXPECT_THAT(history, ElementsAre(good));
}

TEST_F(UnreadableRows, RequestForASettingIsDropped) {
  control::ManagedSetting holding;
  holding.gpu = "GPU-0";
  holding.kind = SettingKind::power_limit;
  holding.boot_id = "boot";
  for (const char* owner : {"uid 1000", "uid 1001"}) {
    control::SettingClaim claim;
    claim.owner = owner;
    claim.value = SettingValue{300'000, 300'000};
    holding.claims.push_back(claim);
  }
  run([&](Database& database) {
    control::ControlTransaction entry;
    entry.put = holding;
    return save_control(database, entry);
  });
  execute("UPDATE control_claims SET wanted = '3O0000' WHERE owner = 'uid 1001'");
  const auto holdings = ask<std::vector<control::ManagedSetting>>(&load_control);
  ASSERT_EQ(holdings.size(), 1U);
  ASSERT_EQ(holdings[0].claims.size(), 1U);
  EXPECT_EQ(holdings[0].claims[0].owner, "uid 1000");
  EXPECT_EQ(kept().at(0).key, "GPU-0 power_limit 1");
}

TEST_F(UnreadableRows, OnlyTheUnreadableBoardIsDropped) {
  KnownBoard good;
  good.uuid = "GPU-a";
  KnownBoard spoilt;
  spoilt.uuid = "GPU-b";
  run([&](Database& database) { return save_boards(database, {"this", {good, spoilt}}); });
  execute("UPDATE machine_boards SET ecc_source = 'other' WHERE uuid = 'GPU-b'");
  const auto boards = ask<std::vector<KnownBoard>>(
      [](Database& database) { return load_boards(database, "this"); });
  EXPECT_THAT(boards, ElementsAre(good));
  EXPECT_EQ(kept().at(0).key, "this GPU-b");
}

TEST_F(UnreadableRows, OnlyTheUnreadableEnergyWindowIsDropped) {
  energy::Window window;
  window.gpus = {{"GPU-1", {}, 700'000}, {"GPU-0", {}, std::nullopt}};
  energy::EnergyTransaction changes;
  for (const char* id : {"good", "spoilt"}) {
    window.id = id;
    changes.state.windows.push_back(window);
  }
  run([&](Database& database) { return save_energy(database, changes); });
  execute("UPDATE energy_windows SET owner = -1 WHERE id = 'spoilt'");
  const auto books = ask<energy::LedgerState>(&load_energy);
  ASSERT_EQ(books.windows.size(), 1U);
  EXPECT_EQ(books.windows[0].id, "good");
  EXPECT_EQ(books.windows[0].gpus.size(), 2U);
  EXPECT_EQ(kept().at(0).key, "spoilt");
}

TEST_F(UnreadableRows, OtherTablesStayReadable) {
  const auth::Token token{.id = "one", .digest = "d", .name = "n", .made_by = "uid 7"};
  run([&](Database& database) -> Result<void> {
    KnownBoard board;
    board.uuid = "GPU-a";
    if (auto done = save_boards(database, {"this", {board}}); !done) return done;
    return save_tokens(database, {.tokens = {token}, .removed_ids = {}});
  });
  execute("UPDATE machine_boards SET ecc_suspects = '{'");
  bool boards = false;
  bool tokens = false;
  EXPECT_TRUE(store_->load<std::vector<KnownBoard>>(
      [](Database& database) { return load_boards(database, "this"); },
      [&](const auto& got) { boards = got.ok(); }));
  EXPECT_TRUE(store_->load<std::vector<auth::Token>>(
      &load_tokens, [&](const auto& got) { tokens = got && got->size() == 1; }));
  worker_.run_all();
  EXPECT_TRUE(boards && tokens);
}

}  // namespace
}  // namespace gpuyard::store
