#include "core/auth/token.h"

#include <set>

#include <gtest/gtest.h>

namespace gpuyard::auth {
namespace {

TokenText drawn() {
  auto text = TokenText::draw();
  EXPECT_TRUE(text);
  return *text;
}

TEST(TokenText, ParseRestoresWrittenText) {
  const TokenText token = drawn();
  const auto read = TokenText::parse(token.text());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->id, token.id);
  EXPECT_EQ(read->secret, token.secret);
}

TEST(TokenText, IsOneWordOf61LettersAndDigits) {
  const std::string text = drawn().text();
  EXPECT_EQ(text.size(), 61U);
  EXPECT_TRUE(text.starts_with("gpy_"));
  for (const char c : text.substr(4)) EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c)));
}

TEST(TokenText, IsNeverDrawnTwice) {
  std::set<std::string> ids;
  std::set<std::string> secrets;
  for (int i = 0; i < 1000; ++i) {
    const TokenText token = drawn();
    ids.insert(token.id);
    secrets.insert(token.secret);
  }
  EXPECT_EQ(ids.size(), 1000U);
  EXPECT_EQ(secrets.size(), 1000U);
}

// Each of 62 letters is equally likely: 43,000 letters are some 694 of each, give or take 26.
TEST(TokenText, UsesEveryLetterAlike) {
  std::map<char, int> count;
  for (int i = 0; i < 1000; ++i) {
    for (const char c : drawn().secret) ++count[c];
  }
  EXPECT_EQ(count.size(), 62U);
  for (const auto& [letter, times] : count) {
    EXPECT_GT(times, 694 - 6 * 26) << letter;
    EXPECT_LT(times, 694 + 6 * 26) << letter;
  }
}

TEST(TokenText, EverySingleWrongLetterIsATypingError) {
  const std::string text = drawn().text();
  for (std::size_t at = 4; at < text.size(); ++at) {
    for (const char c : {'2', 'b', 'X'}) {
      std::string wrong = text;
      if (wrong[at] == c) continue;
      wrong[at] = c;
      const auto read = TokenText::parse(wrong);
      ASSERT_FALSE(read) << wrong;
      EXPECT_EQ(read.error().message.find(wrong), std::string::npos) << "shows the token";
    }
  }
}

TEST(TokenText, SwappedLettersAreATypingError) {
  const std::string text = drawn().text();
  for (std::size_t at = 4; at + 1 < text.size(); ++at) {
    std::string wrong = text;
    std::swap(wrong[at], wrong[at + 1]);
    if (wrong == text) continue;
    EXPECT_FALSE(TokenText::parse(wrong)) << wrong;
  }
}

TEST(TokenText, ParseErrorGivesReason) {
  const std::string text = drawn().text();
  const auto why = [](const std::string& wrong) {
    const auto read = TokenText::parse(wrong);
    EXPECT_FALSE(read);
    EXPECT_EQ(read.error().code, Errc::invalid);
    return read.error().message;
  };
  EXPECT_NE(why("").find("gpy_"), std::string::npos);
  EXPECT_NE(why("ghp_abcdef").find("gpy_"), std::string::npos);
  EXPECT_NE(why(text.substr(0, 60)).find("61 characters, got 60"), std::string::npos);
  EXPECT_NE(why(text + "\n").find("62"), std::string::npos);
  std::string wrong = text;
  wrong[30] = wrong[30] == 'a' ? 'b' : 'a';
  EXPECT_NE(why(wrong).find("mistyped"), std::string::npos);
  EXPECT_FALSE(TokenText::parse(text.substr(0, 60) + std::string(1, '\0')));
}

// The checksum as programs in other languages compute it: CRC-32 of ISO-HDLC, in base62.
TEST(TokenText, ChecksumMatchesDocumentedAlgorithm) {
  const TokenText token{"abcdefgh", std::string(43, '0')};
  EXPECT_EQ(token.text(), "gpy_abcdefgh" + std::string(43, '0') + "1E8c1M");
}

TEST(TokenText, DigestIsSha256OfSecret) {
  const TokenText token{"abcdefgh", "abc"};
  EXPECT_EQ(token.digest(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_TRUE(is_same_digest(token.digest(), token.digest()));
  EXPECT_FALSE(is_same_digest(token.digest(), std::string(64, '0')));
  EXPECT_FALSE(is_same_digest(token.digest(), ""));
}

TEST(Token, ValidUntilExpiryOrRevocation) {
  Token token;
  const WallTime now{std::chrono::seconds(1'000'000)};
  EXPECT_TRUE(token.is_valid(now));
  token.expires = now;
  EXPECT_FALSE(token.is_valid(now));
  EXPECT_TRUE(token.is_valid(now - std::chrono::milliseconds(1)));
  token.revoked = now;
  EXPECT_FALSE(token.is_valid(now - std::chrono::milliseconds(1)));
}

}  // namespace
}  // namespace gpuyard::auth
