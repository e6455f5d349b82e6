#include "access/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "access/archive_for_tests.h"

namespace gpuyard::access {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using testing::HasSubstr;

class TokensTest : public ::testing::Test {
 protected:
  TokensTest() {
    tokens_.start();
    loop_.run_posted();
  }

  static TokenWish wish(const std::string& name, std::uint32_t uid = 1000) {
    return {.name = name,
            .uid = uid,
            .scope = Scope::lease,
            .gpus = {},
            .lasts = hours(1),
            .made_by = "uid 1000"};
  }
  Result<Tokens::Made> make(TokenWish wanted) {
    std::optional<Result<Tokens::Made>> answer;
    tokens_.make(std::move(wanted), [&](Result<Tokens::Made> made) { answer = std::move(made); });
    loop_.run_posted();
    EXPECT_TRUE(answer);
    return answer ? *answer : Result<Tokens::Made>(Error{Errc::internal, "no answer"});
  }
  Result<void> revoke(const std::vector<std::string>& ids) {
    std::optional<Result<void>> answer;
    tokens_.revoke(ids, "uid 0", [&](const Result<void>& done) { answer = done; });
    loop_.run_posted();
    EXPECT_TRUE(answer);
    return answer.value_or(Error{Errc::internal, "no answer"});
  }
  std::string refusal(const std::string& text) {
    const auto checked = tokens_.check(text);
    EXPECT_FALSE(checked);
    return checked ? "" : checked.error().message;
  }

  ManualLoop loop_;
  FakeTokenArchive archive_{loop_};
  Tokens tokens_{loop_, archive_};
};

TEST_F(TokensTest, WhoShowsTheTextIsKnownByIt) {
  const auto made = make(wish("ci"));
  ASSERT_TRUE(made);
  const auto found = tokens_.check(made->text);
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)->name, "ci");
  EXPECT_EQ((*found)->uid, 1000U);
}

TEST_F(TokensTest, TheSecretIsKeptNowhere) {
  const auto made = make(wish("ci"));
  ASSERT_TRUE(made);
  const std::string secret = TokenText::parse(made->text)->secret;
  const Token& kept = archive_.kept.at(made->token.id);
  EXPECT_EQ(kept.digest.size(), 64U);
  for (const std::string& text : {kept.id, kept.digest, kept.name, kept.made_by}) {
    EXPECT_EQ(text.find(secret), std::string::npos);
  }
}

TEST_F(TokensTest, AWrongSecretAndAnUnknownIdAreToldAlike) {
  const auto made = make(wish("ci"));
  const TokenText other = *TokenText::draw();
  const std::string wrong = TokenText{made->token.id, other.secret}.text();
  EXPECT_EQ(refusal(wrong), refusal(other.text()));
  EXPECT_EQ(tokens_.check(wrong).error().code, Errc::denied);
}

TEST_F(TokensTest, AMistypedOneIsRefusedWithoutALook) {
  const auto made = make(wish("ci"));
  std::string text = made->text;
  std::swap(text[20], text[21]);
  if (text == made->text) GTEST_SKIP() << "two letters alike";
  EXPECT_THAT(refusal(text), HasSubstr("mistyped"));
}

TEST_F(TokensTest, ExpiresByTheWallClockAlsoIfThatJumps) {
  const auto made = make(wish("ci"));
  EXPECT_TRUE(tokens_.check(made->text));
  loop_.step_wall(hours(1));
  EXPECT_THAT(refusal(made->text), HasSubstr("expired at"));
  loop_.step_wall(-hours(1));
  EXPECT_TRUE(tokens_.check(made->text));
}

TEST_F(TokensTest, OneThatWasRevokedIsRefusedEvenIfThatCannotBeKept) {
  const auto made = make(wish("ci"));
  archive_.full = true;
  const auto done = revoke({made->token.id});
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("would be forgotten when gpuyard starts again"));
  EXPECT_THAT(refusal(made->text), HasSubstr("was revoked"));
}

TEST_F(TokensTest, OneThatCannotBeKeptIsNotMade) {
  archive_.broken = Error{Errc::unavailable, "the disk is full"};
  const auto made = make(wish("ci"));
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("the disk is full"));
  EXPECT_TRUE(tokens_.all().empty());
}

TEST_F(TokensTest, AfterARestartTheyAreAsTheyWere) {
  const auto made = make(wish("ci"));
  const auto gone = make(wish("old"));
  ASSERT_TRUE(revoke({gone->token.id}));
  Tokens next(loop_, archive_);
  EXPECT_EQ(next.check(made->text).error().code, Errc::unavailable);
  next.start();
  loop_.run_posted();
  EXPECT_TRUE(next.check(made->text));
  EXPECT_THAT(next.check(gone->text).error().message, HasSubstr("was revoked at"));
}

TEST_F(TokensTest, UntilTheyCanBeReadEveryOneIsUnavailable) {
  const auto made = make(wish("ci"));
  archive_.broken = Error{Errc::unavailable, "the disk is away"};
  Tokens next(loop_, archive_);
  next.start();
  loop_.run_posted();
  EXPECT_EQ(next.check(made->text).error().code, Errc::unavailable);
  archive_.broken.reset();
  loop_.advance(std::chrono::seconds(6));
  EXPECT_TRUE(next.check(made->text));
}

TEST_F(TokensTest, AUserHasNoTwoGoodOnesOfOneName) {
  const auto first = make(wish("ci"));
  EXPECT_EQ(make(wish("ci")).error().code, Errc::conflict);
  EXPECT_TRUE(make(wish("ci", 1001)));
  ASSERT_TRUE(revoke({first->token.id}));
  EXPECT_TRUE(make(wish("ci")));
}

TEST_F(TokensTest, AUserHasNoMoreThanAShareAndAdministratorsHaveAPlaceKept) {
  for (std::size_t i = 0; i < Tokens::kMostOfOne; ++i) ASSERT_TRUE(make(wish(std::to_string(i))));
  EXPECT_EQ(make(wish("more")).error().code, Errc::busy);
  for (std::uint32_t uid = 2000; tokens_.all().size() < Tokens::kMost - Tokens::kKeptForAdmins;
       ++uid) {
    ASSERT_TRUE(make(wish("ci", uid)));
  }
  EXPECT_EQ(make(wish("ci", 9000)).error().code, Errc::busy);
  TokenWish of_root = wish("ci", 0);
  of_root.by_admin = true;
  EXPECT_TRUE(make(of_root));
}

TEST_F(TokensTest, WhatIsOverIsForgottenInTheEnd) {
  std::vector<std::string> ids;
  for (std::uint32_t uid = 0; uid < Tokens::kMostEnded + 20; ++uid) {
    ids.push_back(make(wish("ci", uid))->token.id);
    loop_.advance(milliseconds(1));
  }
  ASSERT_TRUE(revoke(ids));
  ASSERT_TRUE(make(wish("one more")));
  EXPECT_EQ(tokens_.all().size(), Tokens::kMostEnded + 1);
  EXPECT_EQ(tokens_.find(ids.front()), nullptr);
  EXPECT_NE(tokens_.find(ids.back()), nullptr);
  EXPECT_EQ(archive_.kept.size(), tokens_.all().size());
}

TEST_F(TokensTest, ARevocationIsToldAtOnceAndOnlyToItsOwn) {
  const auto made = make(wish("ci"));
  const auto other = make(wish("cd"));
  int ended = 0;
  int others = 0;
  const auto watch = tokens_.on_end(made->token.id, [&] { ++ended; });
  const auto watch_other = tokens_.on_end(other->token.id, [&] { ++others; });
  tokens_.revoke({made->token.id}, "uid 0", [](const Result<void>&) {});
  EXPECT_EQ(ended, 1);
  loop_.advance(minutes(1));
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(others, 0);
}

TEST_F(TokensTest, AnEndByTimeIsToldWithinASecondAlsoIfTheClockJumps) {
  const auto made = make(wish("ci"));
  bool ended = false;
  const auto watch = tokens_.on_end(made->token.id, [&] { ended = true; });
  loop_.advance(minutes(59));
  EXPECT_FALSE(ended);
  loop_.step_wall(minutes(1));
  loop_.advance(milliseconds(999));
  EXPECT_TRUE(ended);
}

TEST_F(TokensTest, WhoNoLongerListensIsToldNothing) {
  const auto made = make(wish("ci"));
  bool ended = false;
  {
    const auto watch = tokens_.on_end(made->token.id, [&] { ended = true; });
  }
  ASSERT_TRUE(revoke({made->token.id}));
  EXPECT_FALSE(ended);
}

TEST_F(TokensTest, TheFirstEndIsThatOfTheTokensThatWereMadeToLast) {
  EXPECT_EQ(tokens_.first_end(hours(24)), std::nullopt);
  ASSERT_TRUE(make(wish("short")).ok());
  EXPECT_EQ(tokens_.first_end(hours(24)), std::nullopt);
  auto lasting = wish("long");
  lasting.lasts = hours(48);
  const auto longer = make(lasting);
  lasting.name = "shorter";
  lasting.lasts = hours(24);
  const auto first = make(lasting);
  ASSERT_TRUE(longer.ok() && first.ok());
  EXPECT_EQ(tokens_.first_end(hours(24)), first->token.expires);
  ASSERT_TRUE(revoke({first->token.id}).ok());
  EXPECT_EQ(tokens_.first_end(hours(24)), longer->token.expires);
}

TEST_F(TokensTest, ItsUseIsKeptOnceAMinuteHoweverOftenItIsUsed) {
  const auto made = make(wish("ci"));
  const int before = archive_.saves;
  for (int i = 0; i < 600; ++i) {
    tokens_.used(made->token.id, "192.0.2.7");
    loop_.advance(milliseconds(100));
  }
  EXPECT_LE(archive_.saves - before, 1);
  loop_.advance(minutes(1));
  EXPECT_EQ(archive_.kept.at(made->token.id).last_from, "192.0.2.7");
  EXPECT_FALSE(archive_.kept.at(made->token.id).in_clear);
  tokens_.used(made->token.id, "192.0.2.7", true);
  loop_.advance(minutes(1));
  EXPECT_TRUE(archive_.kept.at(made->token.id).in_clear);
}

}  // namespace
}  // namespace gpuyard::access
