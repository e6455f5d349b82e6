#include "core/auth/token_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/auth/archive_for_tests.h"

namespace gpuyard::auth {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using testing::HasSubstr;

class TokenStoreTest : public ::testing::Test {
 protected:
  TokenStoreTest() {
    tokens_.start();
    loop_.run_posted();
  }

  static TokenRequest request(const std::string& name, std::uint32_t uid = 1000) {
    return {.name = name,
            .uid = uid,
            .scope = Scope::lease,
            .gpus = {},
            .lifetime = hours(1),
            .made_by = "uid 1000"};
  }
  Result<TokenStore::CreatedToken> make(TokenRequest wanted) {
    std::optional<Result<TokenStore::CreatedToken>> answer;
    tokens_.create(std::move(wanted),
                   [&](Result<TokenStore::CreatedToken> made) { answer = std::move(made); });
    loop_.run_posted();
    EXPECT_TRUE(answer);
    return answer ? *answer : Result<TokenStore::CreatedToken>(Error{Errc::internal, "no answer"});
  }
  Result<void> revoke(const std::vector<std::string>& ids,
                      Requester requester = Requester::daemon()) {
    std::optional<Result<void>> answer;
    changed_ = tokens_.revoke(
        ids, "uid 0", [&](const Result<void>& done) { answer = done; }, std::move(requester));
    loop_.run_posted();
    EXPECT_TRUE(answer);
    return answer.value_or(Error{Errc::internal, "no answer"});
  }
  std::string refusal(const std::string& text) {
    const auto checked = tokens_.authenticate(text);
    EXPECT_FALSE(checked);
    return checked ? "" : checked.error().message;
  }

  ManualLoop loop_;
  // As after a restart.
  std::string refusal_by_next(const std::string& text) {
    TokenStore next(loop_, archive_);
    next.start();
    loop_.run_posted();
    const auto checked = next.authenticate(text);
    return checked ? "" : checked.error().message;
  }
  // Creates this many tokens of several users, which expire in an hour.
  std::vector<TokenStore::CreatedToken> make_many(std::size_t count) {
    std::vector<TokenStore::CreatedToken> all;
    for (std::size_t i = 0; i < count; ++i) {
      const auto uid = static_cast<std::uint32_t>(5000 + i / TokenStore::kMaxTokensPerUser);
      const auto made = make(request(std::to_string(i), uid));
      if (made) all.push_back(*made);
    }
    EXPECT_EQ(all.size(), count);
    return all;
  }

  FakeTokenStorage archive_{loop_};
  TokenStore tokens_{loop_, archive_};
  std::vector<std::string> changed_;  // by the last revoke()
};

TEST_F(TokenStoreTest, ValidTextIdentifiesOwner) {
  const auto made = make(request("ci"));
  ASSERT_TRUE(made);
  const auto found = tokens_.authenticate(made->text);
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)->name, "ci");
  EXPECT_EQ((*found)->uid, 1000U);
}

TEST_F(TokenStoreTest, TheSecretIsKeptNowhere) {
  const auto made = make(request("ci"));
  ASSERT_TRUE(made);
  const std::string secret = TokenText::parse(made->text)->secret;
  const Token& kept = archive_.kept.at(made->token.id);
  EXPECT_EQ(kept.digest.size(), 64U);
  for (const std::string& text : {kept.id, kept.digest, kept.name, kept.made_by}) {
    EXPECT_EQ(text.find(secret), std::string::npos);
  }
}

TEST_F(TokenStoreTest, WrongSecretAndUnknownIdErrorsMatch) {
  const auto made = make(request("ci"));
  const TokenText other = *TokenText::draw();
  const std::string wrong = TokenText{made->token.id, other.secret}.text();
  EXPECT_EQ(refusal(wrong), refusal(other.text()));
  EXPECT_EQ(tokens_.authenticate(wrong).error().code, Errc::denied);
}

TEST_F(TokenStoreTest, BadChecksumIsRefusedAsMistyped) {
  const auto made = make(request("ci"));
  std::string text = made->text;
  std::swap(text[20], text[21]);
  if (text == made->text) GTEST_SKIP() << "two letters alike";
  EXPECT_THAT(refusal(text), HasSubstr("mistyped"));
}

TEST_F(TokenStoreTest, TokenExpiresByWallClockDespiteJumps) {
  const auto made = make(request("ci"));
  EXPECT_TRUE(tokens_.authenticate(made->text));
  loop_.step_wall(hours(1));
  EXPECT_THAT(refusal(made->text), HasSubstr("expired at"));
  loop_.step_wall(-hours(1));
  EXPECT_TRUE(tokens_.authenticate(made->text));
}

TEST_F(TokenStoreTest, UnsavedRevocationTakesEffectAndIsRetried) {
  const auto made = make(request("ci"));
  archive_.full = true;
  const auto done = revoke({made->token.id});
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("gpuyard retries"));
  EXPECT_THAT(refusal(made->text), HasSubstr("was revoked"));
  EXPECT_TRUE(tokens_.has_unsaved_revocation(made->token.id));
}

TEST_F(TokenStoreTest, UnsavedRevocationIsSavedOnceTheDiskWorks) {
  const auto made = make(request("ci"));
  archive_.broken = Error{Errc::unavailable, "the disk is full"};
  ASSERT_FALSE(revoke({made->token.id}));
  loop_.advance(minutes(10));
  archive_.broken.reset();
  EXPECT_EQ(refusal_by_next(made->text), "") << "not stored yet";
  loop_.advance(TokenStore::kSaveRetryDelay);
  EXPECT_FALSE(tokens_.has_unsaved_revocation(made->token.id));
  EXPECT_THAT(refusal_by_next(made->text), HasSubstr("was revoked at"));
  const int before = archive_.saves;
  loop_.advance(minutes(10));
  EXPECT_EQ(archive_.saves, before) << "it retries although nothing is pending";
}

TEST_F(TokenStoreTest, UnsavedRevocationIsSavedAfterTheNextChange) {
  const auto made = make(request("ci"));
  archive_.full = true;
  ASSERT_FALSE(revoke({made->token.id}));
  archive_.full = false;
  ASSERT_TRUE(make(request("other")));
  EXPECT_FALSE(tokens_.has_unsaved_revocation(made->token.id));
  EXPECT_THAT(refusal_by_next(made->text), HasSubstr("was revoked at"));
}

TEST_F(TokenStoreTest, UnsavedRevocationCanBeRepeated) {
  const auto made = make(request("ci"));
  archive_.full = true;
  ASSERT_FALSE(revoke({made->token.id}));
  EXPECT_FALSE(revoke({made->token.id})) << "still not stored";
  archive_.full = false;
  EXPECT_TRUE(revoke({made->token.id}));
  EXPECT_TRUE(changed_.empty());
  EXPECT_THAT(refusal_by_next(made->text), HasSubstr("was revoked at"));
}

TEST_F(TokenStoreTest, UnsavedRevocationIsSavedAtShutdown) {
  std::optional<TokenStore> tokens(std::in_place, loop_, archive_);
  tokens->start();
  loop_.run_posted();
  std::optional<TokenStore::CreatedToken> made;
  tokens->create(request("ci"), [&](const Result<TokenStore::CreatedToken>& one) { made = *one; });
  loop_.run_posted();
  archive_.full = true;
  tokens->revoke({made->token.id}, "uid 0", [](const Result<void>&) {});
  loop_.run_posted();
  archive_.full = false;
  tokens.reset();
  loop_.run_posted();
  EXPECT_THAT(refusal_by_next(made->text), HasSubstr("was revoked at"));
}

TEST_F(TokenStoreTest, FullShareOfAUserDelaysNoRevocation) {
  const auto made = make(request("ci"));
  archive_.full_for = "uid 1000";
  TokenRequest more = request("more");
  more.quota_group = "uid 1000";
  EXPECT_EQ(make(more).error().code, Errc::busy);
  EXPECT_EQ(revoke({made->token.id}, {"uid 1000", false}).error().code, Errc::busy);
  EXPECT_THAT(refusal(made->text), HasSubstr("was revoked"));
  loop_.advance(TokenStore::kSaveRetryDelay);
  EXPECT_FALSE(tokens_.has_unsaved_revocation(made->token.id)) << "the daemon stores it on its own";
  EXPECT_THAT(refusal_by_next(made->text), HasSubstr("was revoked at"));
}

TEST_F(TokenStoreTest, RepeatedRevocationSkipsSave) {
  const auto made = make(request("ci"));
  ASSERT_TRUE(revoke({made->token.id}));
  EXPECT_EQ(changed_, std::vector{made->token.id});
  const int before = archive_.saves;
  EXPECT_TRUE(revoke({made->token.id}));
  EXPECT_TRUE(revoke({"unknown"}));
  EXPECT_TRUE(revoke({}));
  EXPECT_TRUE(changed_.empty());
  EXPECT_EQ(archive_.saves, before);
  archive_.full = true;
  EXPECT_TRUE(revoke({made->token.id}));
}

TEST_F(TokenStoreTest, ChangesAreLimitedPerMinuteExceptForAdministrators) {
  const Requester alice{"uid 1000", false};
  for (int i = 0; i < 60; ++i) ASSERT_FALSE(tokens_.count_change(alice)) << i;
  EXPECT_EQ(tokens_.count_change(alice), std::chrono::seconds(1));
  EXPECT_FALSE(tokens_.count_change({"uid 1001", false}));
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(tokens_.count_change({"uid 0", true}));
  loop_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(tokens_.count_change(alice));
}

TEST_F(TokenStoreTest, LifetimeIsFromOneSecondToTenYears) {
  TokenRequest wanted = request("ci");
  for (const Duration bad :
       {Duration(0), Duration(-1), Duration::min(), Duration::max(),
        Duration(kMaxTokenLifetime) + Duration(1), Duration(milliseconds(999))}) {
    wanted.lifetime = bad;
    const auto made = make(wanted);
    ASSERT_FALSE(made) << bad.count();
    EXPECT_EQ(made.error().code, Errc::invalid);
    EXPECT_THAT(made.error().message, HasSubstr("315360000"));
  }
  for (const Duration good : {Duration(kMinTokenLifetime), Duration(kMaxTokenLifetime)}) {
    wanted.lifetime = good;
    wanted.name = std::to_string(good.count());
    const auto made = make(wanted);
    ASSERT_TRUE(made);
    EXPECT_EQ(*made->token.expires - made->token.made, good);
  }
}

TEST_F(TokenStoreTest, UnsavableTokenIsNotCreated) {
  archive_.broken = Error{Errc::unavailable, "the disk is full"};
  const auto made = make(request("ci"));
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("the disk is full"));
  EXPECT_TRUE(tokens_.all().empty());
}

TEST_F(TokenStoreTest, RestartRestoresValidAndRevokedState) {
  const auto made = make(request("ci"));
  const auto gone = make(request("old"));
  ASSERT_TRUE(revoke({gone->token.id}));
  TokenStore next(loop_, archive_);
  EXPECT_EQ(next.authenticate(made->text).error().code, Errc::unavailable);
  next.start();
  loop_.run_posted();
  EXPECT_TRUE(next.authenticate(made->text));
  EXPECT_THAT(next.authenticate(gone->text).error().message, HasSubstr("was revoked at"));
}

TEST_F(TokenStoreTest, CheckIsUnavailableUntilLoad) {
  const auto made = make(request("ci"));
  archive_.broken = Error{Errc::unavailable, "the disk is away"};
  TokenStore next(loop_, archive_);
  next.start();
  loop_.run_posted();
  EXPECT_EQ(next.authenticate(made->text).error().code, Errc::unavailable);
  archive_.broken.reset();
  loop_.advance(std::chrono::seconds(6));
  EXPECT_TRUE(next.authenticate(made->text));
}

TEST_F(TokenStoreTest, DuplicateValidNameOfUserIsRefused) {
  const auto first = make(request("ci"));
  EXPECT_EQ(make(request("ci")).error().code, Errc::conflict);
  EXPECT_TRUE(make(request("ci", 1001)));
  ASSERT_TRUE(revoke({first->token.id}));
  EXPECT_TRUE(make(request("ci")));
}

TEST_F(TokenStoreTest, UserLimitIsEnforcedAndAdminSlotsReserved) {
  for (std::size_t i = 0; i < TokenStore::kMaxTokensPerUser; ++i)
    ASSERT_TRUE(make(request(std::to_string(i))));
  EXPECT_EQ(make(request("more")).error().code, Errc::busy);
  for (std::uint32_t uid = 2000;
       tokens_.all().size() < TokenStore::kMaxTokens - TokenStore::kReservedForAdmins; ++uid) {
    ASSERT_TRUE(make(request("ci", uid)));
  }
  EXPECT_EQ(make(request("ci", 9000)).error().code, Errc::busy);
  TokenRequest of_root = request("ci", 0);
  of_root.by_admin = true;
  EXPECT_TRUE(make(of_root));
}

TEST_F(TokenStoreTest, EndedBeyondMaxEvictsOldest) {
  std::vector<std::string> ids;
  for (std::uint32_t uid = 0; uid < TokenStore::kMaxEndedTokens + 20; ++uid) {
    ids.push_back(make(request("ci", uid))->token.id);
    loop_.advance(milliseconds(1));
  }
  ASSERT_TRUE(revoke(ids));
  ASSERT_TRUE(make(request("one more")));
  EXPECT_EQ(tokens_.all().size(), TokenStore::kMaxEndedTokens + 1);
  EXPECT_EQ(tokens_.find(ids.front()), nullptr);
  EXPECT_NE(tokens_.find(ids.back()), nullptr);
  EXPECT_EQ(archive_.kept.size(), tokens_.all().size());
}

TEST_F(TokenStoreTest, EvictionPrefersUserWithMostEnded) {
  const auto other = make(request("ci", 1));
  ASSERT_TRUE(revoke({other->token.id}));
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < 2 * TokenStore::kMaxEndedTokens; ++i) {
    loop_.advance(milliseconds(1));
    ids.push_back(make(request("ci", 2))->token.id);
    ASSERT_TRUE(revoke({ids.back()}));
  }
  ASSERT_TRUE(make(request("one more")));
  EXPECT_NE(tokens_.find(other->token.id), nullptr);
  EXPECT_EQ(tokens_.find(ids.front()), nullptr);
  EXPECT_EQ(tokens_.all().size(), TokenStore::kMaxEndedTokens + 1);
}

TEST_F(TokenStoreTest, AWrongClockDeletesNoToken) {
  const auto all = make_many(300);
  for (const hours wrong : {hours(400 * 24), hours(-400 * 24)}) {
    const std::string name = std::to_string(wrong.count());
    loop_.step_wall(wrong);
    EXPECT_TRUE(make(request(name)));
    loop_.advance(hours(23));
    EXPECT_TRUE(make(request(name + " a day later")));
    loop_.step_wall(-wrong - hours(23));
    EXPECT_EQ(archive_.kept.size(), tokens_.all().size());
    for (const auto& one : all) ASSERT_TRUE(tokens_.authenticate(one.text));
  }
}

TEST_F(TokenStoreTest, IntermittentlyWrongClockDeletesNoToken) {
  const auto all = make_many(300);
  for (int day = 0; day < 3; ++day) {
    loop_.step_wall(hours(400 * 24));
    loop_.advance(hours(12));
    loop_.step_wall(-hours(400 * 24) - hours(13));
    loop_.advance(hours(1));  // and the clock is right again
  }
  loop_.step_wall(hours(400 * 24));
  ASSERT_TRUE(make(request("one more")));
  loop_.step_wall(-hours(400 * 24));
  for (const auto& one : all) ASSERT_TRUE(tokens_.authenticate(one.text));
}

TEST_F(TokenStoreTest, ExpiredTokensAreForgottenAfterADay) {
  make_many(300);
  loop_.advance(hours(2));
  ASSERT_TRUE(make(request("the same day")));
  EXPECT_EQ(tokens_.all().size(), 301U);
  loop_.advance(TokenStore::kExpiredRetention);
  ASSERT_TRUE(make(request("the next day", 1001)));
  EXPECT_EQ(tokens_.all().size(), TokenStore::kMaxEndedTokens + 1);
  EXPECT_EQ(archive_.kept.size(), tokens_.all().size());
}

TEST_F(TokenStoreTest, ExcessExpiredCountTowardUserLimit) {
  const std::string own = make_many(5 * TokenStore::kMaxTokensPerUser).front().token.id;
  loop_.advance(hours(1));
  for (std::size_t i = 0; i < TokenStore::kMaxTokensPerUser; ++i) {
    ASSERT_TRUE(make(request("again " + std::to_string(i), 5000)));
  }
  loop_.advance(hours(1));
  EXPECT_THAT(make(request("more", 5000)).error().message, HasSubstr("you have 64 tokens"));
  EXPECT_TRUE(make(request("of another", 1000)));
  EXPECT_TRUE(make(request("of one with expired tokens", 5001)));
  ASSERT_TRUE(revoke({own}));
  EXPECT_TRUE(make(request("more", 5000))) << "a revoked token does not count";
}

TEST_F(TokenStoreTest, UnsavedRevocationIsNotForgotten) {
  std::vector<std::string> ids;
  for (const auto& one : make_many(300)) ids.push_back(one.token.id);
  archive_.full = true;
  ASSERT_FALSE(revoke(ids));
  archive_.full = false;
  ASSERT_TRUE(make(request("one more")));
  EXPECT_EQ(tokens_.all().size(), 301U) << "they are still valid on the disk";
  ASSERT_TRUE(make(request("and another")));
  EXPECT_EQ(archive_.kept.size(), TokenStore::kMaxEndedTokens + 2);
  for (const auto& [id, token] : archive_.kept) EXPECT_TRUE(token.revoked || token.uid == 1000U);
}

TEST_F(TokenStoreTest, UsersAreTheOwnersOfValidTokens) {
  const auto ended = make(request("ci", 1003));
  for (const std::uint32_t uid : {1002U, 1001U}) ASSERT_TRUE(make(request("ci", uid)));
  ASSERT_TRUE(make(request("cd", 1002)));
  ASSERT_TRUE(revoke({ended->token.id}));
  EXPECT_EQ(tokens_.users(), (std::vector<std::uint32_t>{1001, 1002}));
}

TEST_F(TokenStoreTest, RevocationNotifiesMatchingSubscriberOnce) {
  const auto made = make(request("ci"));
  const auto other = make(request("cd"));
  int ended = 0;
  int others = 0;
  const auto watch = tokens_.subscribe_to_end(made->token.id, [&] { ++ended; });
  const auto watch_other = tokens_.subscribe_to_end(other->token.id, [&] { ++others; });
  tokens_.revoke({made->token.id}, "uid 0", [](const Result<void>&) {});
  EXPECT_EQ(ended, 1);
  loop_.advance(minutes(1));
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(others, 0);
}

TEST_F(TokenStoreTest, ExpiryNotifiesWithinSecondAfterClockJump) {
  const auto made = make(request("ci"));
  bool ended = false;
  const auto watch = tokens_.subscribe_to_end(made->token.id, [&] { ended = true; });
  loop_.advance(minutes(59));
  EXPECT_FALSE(ended);
  loop_.step_wall(minutes(1));
  loop_.advance(milliseconds(999));
  EXPECT_TRUE(ended);
}

TEST_F(TokenStoreTest, CancelledSubscriptionIsNotNotified) {
  const auto made = make(request("ci"));
  bool ended = false;
  {
    const auto watch = tokens_.subscribe_to_end(made->token.id, [&] { ended = true; });
  }
  ASSERT_TRUE(revoke({made->token.id}));
  EXPECT_FALSE(ended);
}

TEST_F(TokenStoreTest, FirstExpiryIgnoresShortLived) {
  EXPECT_EQ(tokens_.next_expiry(hours(24)), std::nullopt);
  ASSERT_TRUE(make(request("short")).ok());
  EXPECT_EQ(tokens_.next_expiry(hours(24)), std::nullopt);
  auto lasting = request("long");
  lasting.lifetime = hours(48);
  const auto longer = make(lasting);
  lasting.name = "shorter";
  lasting.lifetime = hours(24);
  const auto first = make(lasting);
  ASSERT_TRUE(longer.ok() && first.ok());
  EXPECT_EQ(tokens_.next_expiry(hours(24)), first->token.expires);
  ASSERT_TRUE(revoke({first->token.id}).ok());
  EXPECT_EQ(tokens_.next_expiry(hours(24)), longer->token.expires);
}

TEST_F(TokenStoreTest, LastUseIsSavedOncePerMinute) {
  const auto made = make(request("ci"));
  const int before = archive_.saves;
  for (int i = 0; i < 600; ++i) {
    tokens_.record_use(made->token.id, "192.0.2.7");
    loop_.advance(milliseconds(100));
  }
  EXPECT_LE(archive_.saves - before, 1);
  loop_.advance(minutes(1));
  EXPECT_EQ(archive_.kept.at(made->token.id).last_from, "192.0.2.7");
  EXPECT_FALSE(archive_.kept.at(made->token.id).in_clear);
  tokens_.record_use(made->token.id, "192.0.2.7", true);
  loop_.advance(minutes(1));
  EXPECT_TRUE(archive_.kept.at(made->token.id).in_clear);
}

TEST_F(TokenStoreTest, UnsavedUseIsRetried) {
  const auto made = make(request("ci"));
  tokens_.record_use(made->token.id, "192.0.2.7", true);
  archive_.full = true;
  loop_.advance(TokenStore::kUseSaveDelay);
  archive_.full = false;
  archive_.broken = Error{Errc::unavailable, "the disk is full"};
  loop_.advance(TokenStore::kUseSaveDelay);
  archive_.broken.reset();
  EXPECT_FALSE(archive_.kept.at(made->token.id).in_clear);
  loop_.advance(TokenStore::kUseSaveDelay);
  EXPECT_TRUE(archive_.kept.at(made->token.id).in_clear);
}

}  // namespace
}  // namespace gpuyard::auth
