#include "base/text.h"

#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/log.h"
#include "gpuyard/sparkline.h"

namespace gpuyard {
namespace {

TEST(Ascii, LowercaseChangesOnlyLetters) {
  EXPECT_EQ(to_lower("00000000:AF:00.0 @[`{ \xC3\x84"), "00000000:af:00.0 @[`{ \xC3\x84");
  EXPECT_EQ(to_lower(""), "");
  EXPECT_EQ(to_lower('Z'), 'z');
}

TEST(Ascii, ComparisonIgnoresLetterCase) {
  EXPECT_TRUE(equals_ignoring_case("Content-Type", "content-TYPE"));
  EXPECT_TRUE(equals_ignoring_case("", ""));
  EXPECT_FALSE(equals_ignoring_case("Host", "Hos"));
  EXPECT_FALSE(equals_ignoring_case("@", "`"));  // 32 apart, as letters are
  EXPECT_FALSE(equals_ignoring_case("\xC3\x84", "\xC3\xA4"));
}

}  // namespace

namespace {

TEST(Printable, ForeignEscapeSequencesAreReplaced) {
  EXPECT_EQ(printable("a\x1b[2Jb\nc\x7f"), "a?[2Jb?c?");
  EXPECT_EQ(printable("\u009b2J"), "?2J") << "the one-character form";
  EXPECT_EQ(printable("\xff"), "?");
  EXPECT_EQ(printable("K\u00F6ln \u6f22\u5b57 \U0001F600"), "K\u00F6ln \u6f22\u5b57 \U0001F600");
}

TEST(Printable, BidiControlsAndLineSeparatorsAreReplaced) {
  for (const char* const hidden : {"\u202e", "\u2066", "\u2069", "\u200f", "\u061c", "\u2028"}) {
    EXPECT_EQ(printable(std::string("nohtyp") + hidden + "x"), "nohtyp?x");
  }
}

TEST(Printable, LogMessagesAreSanitized) {
  const CapturedLog log;
  log::warning("pid 7 ({}) is gone", "\u009b2J\u202egpj\nERROR");
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_NE(log.lines().front().find("pid 7 (?2J?gpj?ERROR) is gone"), std::string::npos);
}

}  // namespace

namespace {

TEST(NearestWord, FewestEditsWin) {
  const std::vector<std::string_view> names = {"memory.total", "memory.used", "name"};
  EXPECT_EQ(nearest_word("memory.totl", names), "memory.total");
  EXPECT_EQ(nearest_word("Name", names), "name");
  EXPECT_EQ(nearest_word("anme", names), "name");
  EXPECT_EQ(nearest_word("mem", names), "memory.total");
  EXPECT_EQ(nearest_word("zzzz", names), "");
}

}  // namespace

namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::string percent(std::vector<double> values) {
  return sparkline(values);
}
std::string linear(std::vector<double> values, double max) {
  return sparkline(values, max);
}

TEST(ShellWord, IsQuotedUnlessPlain) {
  EXPECT_EQ(quote_shell_word("/etc/gpuyard/x.toml"), "/etc/gpuyard/x.toml");
  EXPECT_EQ(quote_shell_word("a b"), "'a b'");
  EXPECT_EQ(quote_shell_word("$(id)"), "'$(id)'");
  EXPECT_EQ(quote_shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(quote_shell_word(""), "''");
}

TEST(UnknownWord, SuggestsTheNearest) {
  EXPECT_EQ(unknown_word("metric", "powr", {"temp", "power"}),
            "unknown metric \"powr\" (did you mean \"power\"?)");
  EXPECT_EQ(unknown_word("key", "listn", {"listen"}, "", "server."),
            "unknown key \"server.listn\" (did you mean \"server.listen\"?)");
}

TEST(UnknownWord, WithoutANearOneHasTheOtherText) {
  EXPECT_EQ(unknown_word("sink", "xyz", {"mail"}, "; known sinks: mail"),
            "unknown sink \"xyz\"; known sinks: mail");
  EXPECT_EQ(unknown_word("sink", "xyz", {}), "unknown sink \"xyz\"");
}

TEST(Sparkline, PercentagesHaveEightBands) {
  RecordProperty("contract", "C11");
  EXPECT_EQ(percent({45, 67, 82, 91, 88, 75, 60}), "▃▅▆█▇▅▄");
  EXPECT_EQ(percent({0, 13, 25, 50, 63, 78, 85, 90}), "▁▂▃▄▅▆▇█") << "the lower bounds";
  EXPECT_EQ(percent({12.9, 24.9, 49.9, 62.9, 77.9, 84.9, 89.9, 100}), "▁▂▃▄▅▆▇█")
      << "just below the next";
}

TEST(Sparkline, ValuesMapToEighthsOfMax) {
  RecordProperty("contract", "C11");
  EXPECT_EQ(linear({0, 1, 2, 3, 4, 5, 6, 7, 8}, 8), "▁▂▃▄▅▆▇██");
  EXPECT_EQ(linear({0, 350, 700}, 700), "▁▅█");
}

TEST(Sparkline, OutOfRangeValueIsClamped) {
  EXPECT_EQ(percent({-5, 250, kInfinite, -kInfinite}), "▁██▁");
  EXPECT_EQ(linear({-5, 250, kInfinite, -kInfinite}, 100), "▁██▁");
  EXPECT_EQ(linear({0, 5}, 0), "▁▁");
  EXPECT_EQ(linear({0, 5}, kNothing), "▁▁");
}

TEST(Sparkline, MissingValueIsBlank) {
  EXPECT_EQ(percent({90, kNothing, 0}), "█ ▁");
  EXPECT_EQ(linear({8, kNothing}, 8), "█ ");
  EXPECT_EQ(percent({}), "");
}

}  // namespace
}  // namespace gpuyard
