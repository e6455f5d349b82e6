#include "base/parameters.h"

#include <cstdint>
#include <optional>

#include <gtest/gtest.h>

namespace gpuyard {

struct Words {
  std::string id;
  std::optional<std::uint32_t> limit;
  std::optional<double> ratio;
  std::optional<bool> follow;
};
BOOST_DESCRIBE_STRUCT(Words, (), (id, limit, ratio, follow))

struct Bounded {
  std::optional<std::int64_t> before;
  std::optional<double> hz;
  std::optional<std::string> reason;
};
BOOST_DESCRIBE_STRUCT(Bounded, (), (before, hz, reason))
GPUYARD_ABOUT(Bounded, {"before", "", 0}, {"hz", "", 1, 100}, {"reason", "", 0, 3})

struct Nothing {};
BOOST_DESCRIBE_STRUCT(Nothing, (), ())

namespace {

std::string problem_of(const NamedValues& given) {
  const auto read = read_parameters<Words>(given);
  if (read) return "no problem";
  EXPECT_EQ(read.error().code, Errc::invalid);
  return read.error().message;
}

TEST(Parameters, ValuesAreParsedByFieldType) {
  const auto read = read_parameters<Words>(
      {{"limit", "7"}, {"id", "GPU-1"}, {"ratio", "0.5"}, {"follow", "true"}});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->id, "GPU-1");
  EXPECT_EQ(read->limit, 7U);
  EXPECT_EQ(read->ratio, 0.5);
  EXPECT_EQ(read->follow, true);
}

TEST(Parameters, ThatAreOptionalMayBeMissing) {
  const auto read = read_parameters<Words>({{"id", "x"}});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->limit, std::nullopt);
  EXPECT_EQ(read->follow, std::nullopt);
}

TEST(Parameters, ThatAreRequiredMustBeThere) {
  EXPECT_EQ(problem_of({{"limit", "7"}}), "parameter id is missing");
  EXPECT_EQ(problem_of({{"id", ""}}), "parameter id is empty");
}

TEST(Parameters, UnknownNameIsReported) {
  EXPECT_EQ(problem_of({{"id", "x"}, {"limits", "7"}}), "unknown parameter \"limits\"");
  EXPECT_FALSE(read_parameters<Nothing>({{"", ""}}));
}

TEST(Parameters, ThatAreRepeatedAreRefusedRatherThanGuessed) {
  EXPECT_EQ(problem_of({{"id", "x"}, {"id", "x"}}), "parameter id is repeated");
  EXPECT_EQ(problem_of({{"id", "x"}, {"limit", "1"}, {"limit", "2"}}),
            "parameter limit is repeated");
}

TEST(Parameters, UnsignedFieldAcceptsOnlyIntegersInRange) {
  for (const char* text :
       {"", "abc", "-1", "+1", " 1", "1 ", "1.0", "0x1", "1,abc", "4294967296"}) {
    EXPECT_EQ(
        problem_of({{"id", "x"}, {"limit", text}}),
        std::string("parameter limit: expected a whole number in range; got \"") + text + "\"");
  }
  EXPECT_EQ(problem_of({{"id", "x"}, {"limit", "4294967295"}}), "no problem");
}

TEST(Parameters, NonFiniteNumberIsRefused) {
  for (const char* text : {"nan", "inf", "-inf", "1e999", "1x"}) {
    EXPECT_NE(problem_of({{"id", "x"}, {"ratio", text}}), "no problem") << text;
  }
}

TEST(Parameters, ValueOutOfBoundsIsRefused) {
  EXPECT_TRUE(read_parameters<Bounded>({{"before", "0"}, {"hz", "1"}, {"reason", "abc"}}));
  for (const auto& [name, text, problem] :
       {std::tuple("before", "-1", "parameter before: expected at least 0; got -1"),
        std::tuple("hz", "0.9", "parameter hz: expected 1 to 100; got 0.9"),
        std::tuple("hz", "1e308", "parameter hz: expected 1 to 100; got 1e+308"),
        std::tuple("reason", "abcd", "parameter reason: expected at most 3 bytes; got 4")}) {
    const auto read = read_parameters<Bounded>({{name, text}});
    ASSERT_FALSE(read) << name;
    EXPECT_EQ(read.error().message, problem);
  }
}

TEST(Parameters, BooleanAcceptsOnlyTrueOrFalse) {
  for (const char* text : {"", "1", "yes", "True", "TRUE"}) {
    EXPECT_EQ(problem_of({{"id", "x"}, {"follow", text}}),
              std::string("parameter follow: expected true or false; got \"") + text + "\"");
  }
}

TEST(Parameters, OfARouteWithoutAnyMustBeNone) {
  EXPECT_TRUE(read_parameters<Nothing>({}));
  EXPECT_FALSE(read_parameters<Nothing>({{"id", "x"}}));
}

TEST(Parameters, NamedValuesRoundTrip) {
  const Words words{.id = "GPU \"1\"", .limit = 7, .ratio = 0.5, .follow = false};
  const NamedValues named = named_values(words);
  EXPECT_EQ(
      named,
      (NamedValues{{"id", "GPU \"1\""}, {"limit", "7"}, {"ratio", "0.5"}, {"follow", "false"}}));
  EXPECT_EQ(read_parameters<Words>(named)->ratio, 0.5);
  EXPECT_EQ(named_values(Words{"x", {}, {}, {}}), (NamedValues{{"id", "x"}}));
}

}  // namespace
}  // namespace gpuyard
