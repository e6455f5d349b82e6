#include "io/store/token_db.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/store/migrations.h"

namespace gpuyard::store {
namespace {

auth::Token whole() {
  const WallTime then{std::chrono::milliseconds(1'700'000'000'123)};
  return {.id = "abcdefgh",
          .digest = std::string(64, 'a'),
          .name = "ci \"one\"",
          .uid = 4294967295U,
          .scope = auth::Scope::control,
          .gpus = {"GPU-1", "GPU-2"},
          .made = then,
          .made_by = "uid 0",
          .expires = then + std::chrono::hours(1),
          .last_used = then,
          .last_from = "192.0.2.7",
          .in_clear = then,
          .revoked = then,
          .revoked_by = "uid 1000"};
}

class TokenDbTest : public ::testing::Test {
 protected:
  void save(auth::TokenTransaction changes) {
    std::optional<Result<void>> saved;
    ASSERT_TRUE(db_.save(std::move(changes), [&](const Result<void>& done) { saved = done; }));
    worker_.run_all();
    ASSERT_TRUE(saved);
    EXPECT_TRUE(*saved);
  }
  std::vector<auth::Token> load() {
    std::vector<auth::Token> tokens;
    EXPECT_TRUE(db_.load([&](Result<std::vector<auth::Token>> all) {
      ASSERT_TRUE(all) << all.error().message;
      tokens = *std::move(all);
    }));
    worker_.run_all();
    return tokens;
  }

  ScratchDirectory place_;
  ManualWorker worker_;
  StateStore store_{worker_, worker_, place_.path() + "/state.db", kStateMigrations};
  TokenDb db_{store_};
};

TEST_F(TokenDbTest, KeepsEveryFieldOfAToken) {
  const auth::Token plain{.id = "ijklmnop", .digest = "d", .name = "n", .made_by = "uid 7"};
  save({.tokens = {whole(), plain}, .removed_ids = {}});
  const auto tokens = load();
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens[0].uid, 4294967295U);
  EXPECT_EQ(tokens[0].scope, auth::Scope::control);
  EXPECT_EQ(tokens[0].gpus, whole().gpus);
  EXPECT_EQ(tokens[0].name, whole().name);
  EXPECT_EQ(tokens[0].digest, whole().digest);
  EXPECT_EQ(tokens[0].made, whole().made);
  EXPECT_EQ(tokens[0].expires, whole().expires);
  EXPECT_EQ(tokens[0].last_used, whole().last_used);
  EXPECT_EQ(tokens[0].last_from, whole().last_from);
  EXPECT_EQ(tokens[0].in_clear, whole().in_clear);
  EXPECT_EQ(tokens[0].revoked, whole().revoked);
  EXPECT_EQ(tokens[0].revoked_by, whole().revoked_by);
  EXPECT_EQ(tokens[1].uid, std::nullopt);
  EXPECT_EQ(tokens[1].expires, std::nullopt);
  EXPECT_EQ(tokens[1].made_by, "uid 7");
}

TEST_F(TokenDbTest, EmptyTransactionDoesNotWrite) {
  save({.tokens = {whole()}, .removed_ids = {}});
  const auto before = std::filesystem::file_size(place_.path() + "/state.db-wal");
  save({});
  EXPECT_EQ(std::filesystem::file_size(place_.path() + "/state.db-wal"), before);
}

TEST_F(TokenDbTest, UserAtQueueQuotaIsRefused) {
  worker_.full = true;
  auth::TokenTransaction changes{.tokens = {whole()}, .removed_ids = {}, .requester = {"uid 1001"}};
  const auto nobody = [](const Result<void>&) {};
  for (std::size_t i = 0; i < limits::kStateTasksPerUser; ++i)
    EXPECT_TRUE(db_.save(changes, nobody));
  EXPECT_FALSE(db_.save(changes, nobody));
  changes.requester.quota_group = "uid 1002";
  EXPECT_TRUE(db_.save(changes, nobody));
}

TEST_F(TokenDbTest, ChangedTokenIsReplacedAndRemovedOneDeleted) {
  save({.tokens = {whole()}, .removed_ids = {}});
  auth::Token later = whole();
  later.last_from = "192.0.2.8";
  save({.tokens = {later}, .removed_ids = {}, .deferred_sync = true});
  ASSERT_EQ(load().size(), 1U);
  EXPECT_EQ(load().front().last_from, "192.0.2.8");
  save({.tokens = {}, .removed_ids = {"abcdefgh"}});
  EXPECT_TRUE(load().empty());
}

}  // namespace
}  // namespace gpuyard::store
