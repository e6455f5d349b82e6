#include "io/store/token_db.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/store/migrations.h"

namespace gpuyard::store {
namespace {

access::Token whole() {
  const WallTime then{std::chrono::milliseconds(1'700'000'000'123)};
  return {.id = "abcdefgh",
          .digest = std::string(64, 'a'),
          .name = "ci \"one\"",
          .uid = 4294967295U,
          .scope = access::Scope::control,
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
  void save(access::TokenTransaction changes) {
    std::optional<Result<void>> saved;
    ASSERT_TRUE(db_.save(std::move(changes), [&](const Result<void>& done) { saved = done; }));
    worker_.run_all();
    ASSERT_TRUE(saved);
    EXPECT_TRUE(*saved);
  }
  std::vector<access::Token> load() {
    std::vector<access::Token> tokens;
    EXPECT_TRUE(db_.load([&](Result<std::vector<access::Token>> all) {
      ASSERT_TRUE(all) << all.error().message;
      tokens = *std::move(all);
    }));
    worker_.run_all();
    return tokens;
  }

  ScratchDirectory place_;
  ManualWorker worker_;
  StateStore store_{worker_, worker_, place_.path() + "/state.db", kStateLayout};
  TokenDb db_{store_};
};

TEST_F(TokenDbTest, KeepsEveryFieldOfAToken) {
  const access::Token plain{.id = "ijklmnop", .digest = "d", .name = "n", .made_by = "uid 7"};
  save({.put = {whole(), plain}, .forget = {}});
  const auto tokens = load();
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens[0].uid, 4294967295U);
  EXPECT_EQ(tokens[0].scope, access::Scope::control);
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
  save({.put = {whole()}, .forget = {}});
  const auto before = std::filesystem::file_size(place_.path() + "/state.db-wal");
  save({});
  EXPECT_EQ(std::filesystem::file_size(place_.path() + "/state.db-wal"), before);
}

TEST_F(TokenDbTest, OneUserIsLimitedToItsShareOfTheQueue) {
  worker_.full = true;
  access::TokenTransaction changes{.put = {whole()}, .forget = {}, .requester = {"uid 1001"}};
  const auto nobody = [](const Result<void>&) {};
  for (std::size_t i = 0; i < shares::kStateWorkOfOne; ++i) EXPECT_TRUE(db_.save(changes, nobody));
  EXPECT_FALSE(db_.save(changes, nobody));
  changes.requester.party = "uid 1002";
  EXPECT_TRUE(db_.save(changes, nobody));
}

TEST_F(TokenDbTest, ChangedTokenIsReplacedAndRemovedOneDeleted) {
  save({.put = {whole()}, .forget = {}});
  access::Token later = whole();
  later.last_from = "192.0.2.8";
  save({.put = {later}, .forget = {}, .soon = true});
  ASSERT_EQ(load().size(), 1U);
  EXPECT_EQ(load().front().last_from, "192.0.2.8");
  save({.put = {}, .forget = {"abcdefgh"}});
  EXPECT_TRUE(load().empty());
}

}  // namespace
}  // namespace gpuyard::store
