#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/text.h"

namespace gpuyard::json {

enum class Colour { red, green };
BOOST_DESCRIBE_ENUM(Colour, red, green)

struct Inner {
  std::int64_t number = 0;
  std::optional<double> maybe;
  friend bool operator==(const Inner&, const Inner&) = default;
};
BOOST_DESCRIBE_STRUCT(Inner, (), (number, maybe))
GPUYARD_ABOUT(Inner, {"number", "How many."})

struct Outer {
  std::string text;
  bool flag = false;
  std::uint8_t small = 0;
  double real = 0;
  Colour colour = Colour::red;
  std::optional<Colour> hue;
  std::vector<Inner> list;
  std::map<std::string, std::int32_t> map;
  friend bool operator==(const Outer&, const Outer&) = default;
};
BOOST_DESCRIBE_STRUCT(Outer, (), (text, flag, small, real, colour, hue, list, map))

struct Empty {};
BOOST_DESCRIBE_STRUCT(Empty, (), ())

struct Bounded {
  std::optional<double> length;
  std::optional<std::uint32_t> count;
  std::optional<std::string> note;
  std::optional<std::vector<std::int64_t>> places;
};
BOOST_DESCRIBE_STRUCT(Bounded, (), (length, count, note, places))

// A record with units as types, and one of the API that adds a field between those of its base.
struct Typed {
  std::string name;
  Duration took{};
  std::optional<Duration> limit;
  WallTime at{};
  std::string secret;
  friend bool operator==(const Typed&, const Typed&) = default;
};
struct Shown : Typed {
  bool mine = false;
  friend bool operator==(const Shown&, const Shown&) = default;
};
BOOST_DESCRIBE_STRUCT(Typed, (), (name, took, limit, at))
BOOST_DESCRIBE_STRUCT(Shown, (), (at, mine, name, took))
GPUYARD_ABOUT(Typed, keyed("name", "who", Unit::null_if_empty),
              keyed("took", "seconds", Unit::seconds, "How long."),
              keyed("limit", "limit_s", Unit::seconds))
GPUYARD_ABOUT(Shown, keyed("name", "owner"))
GPUYARD_ABOUT(Bounded, {"length", "", 0.5, 10}, {"count", "", 1}, {"note", "", 0, 3},
              {"places", "", 1, 2, 0, 7})

namespace {

constexpr std::string_view kOuter =
    R"({"text":"a","flag":true,"small":255,"real":0.1,"colour":"green","hue":null,)"
    R"("list":[{"number":-9223372036854775808,"maybe":null},{"number":1,"maybe":2.5}],)"
    R"("map":{"x":1,"y":-2}})";

std::string problem_of(std::string_view text) {
  const auto read = from_json<Outer>(text);
  return read ? "no problem" : read.error().message;
}
// Returns kOuter with one piece replaced.
std::string replace_in_outer(std::string_view piece, std::string_view other) {
  std::string text(kOuter);
  return text.replace(text.find(piece), piece.size(), other);
}
std::string json_string(std::string_view text) {
  return to_json(std::string(text));
}

TEST(Json, RecordIsWrittenInMemberOrder) {
  const Outer outer{"a",
                    true,
                    255,
                    0.1,
                    Colour::green,
                    {},
                    {{std::numeric_limits<std::int64_t>::min(), {}}, {1, 2.5}},
                    {{"x", 1}, {"y", -2}}};
  EXPECT_EQ(to_json(outer), kOuter);
}

TEST(Json, RoundTripReproducesDocument) {
  const auto read = from_json<Outer>(kOuter);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_json(*read), kOuter);
}

TEST(Json, ARecordWithoutMembersIsAnEmptyObject) {
  EXPECT_EQ(to_json(Empty{}), "{}");
  EXPECT_EQ(to_json(std::vector<Empty>(2)), "[{},{}]");
}

TEST(Json, MissingValueIsWrittenAsNull) {
  EXPECT_EQ(to_json(Inner{3, {}}), R"({"number":3,"maybe":null})");
}

// Written exactly; Boost.JSON 1.81 reads with an error of a few units in the last place.
TEST(Json, DoublesSurvive) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const std::string text = to_json(value);
    double exact = 0;
    std::from_chars(text.data(), text.data() + text.size(), exact);
    EXPECT_EQ(exact, value);
    const auto read = from_json<double>(text);
    ASSERT_TRUE(read) << text;
    EXPECT_DOUBLE_EQ(*read, value);
  }
}

TEST(Json, NonFiniteNumberIsWrittenAsNull) {
  EXPECT_EQ(to_json(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(to_json(-std::numeric_limits<double>::infinity()), "null");
}

TEST(Json, ControlCharactersInStringsAreEscaped) {
  EXPECT_EQ(json_string("\"\\\n\r\t\x01\x7F"), R"("\"\\\n\r\t\u0001\u007f")");
  EXPECT_EQ(json_string(std::string_view("a\0b", 3)), R"("a\u0000b")");
  EXPECT_EQ(json_string("45\u00B0C \u65E5 \U0001F600"), "\"45\u00B0C \u65E5 \U0001F600\"");
}

TEST(Json, InvalidUtf8BecomesReplacementCharacter) {
  EXPECT_EQ(json_string("a\xFFz"), "\"a\uFFFDz\"");
  EXPECT_EQ(json_string("\xC0\xAF"), "\"\uFFFD\uFFFD\"");            // overlong
  EXPECT_EQ(json_string("\xED\xA0\x80"), "\"\uFFFD\uFFFD\uFFFD\"");  // a surrogate
  EXPECT_EQ(json_string("\xE2\x82"), "\"\uFFFD\uFFFD\"");            // cut off
}

TEST(Json, AnyBytesMakeAStringThatParses) {
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const auto once = from_json<std::string>(json_string(bytes));
    ASSERT_TRUE(once) << once.error().message;
    const auto twice = from_json<std::string>(json_string(*once));
    ASSERT_TRUE(twice) << twice.error().message;
    EXPECT_EQ(*twice, *once);  // nothing was left to replace
  }
}

TEST(Utf8, KnowsTheFirstAndTheLastCharacterOfEachLength) {
  for (const char* c : {"A", "\x7F"}) EXPECT_EQ(utf8_sequence_length(c), 1U) << c;
  for (const char* c : {"\u0080", "\u07FF"}) EXPECT_EQ(utf8_sequence_length(c), 2U) << c;
  for (const char* c : {"\u0800", "\uD7FF", "\uE000", "\uFFFF"}) {
    EXPECT_EQ(utf8_sequence_length(c), 3U) << c;
  }
  for (const char* c : {"\U00010000", "\U0010FFFF"}) EXPECT_EQ(utf8_sequence_length(c), 4U) << c;
}

TEST(Utf8, MalformedSequenceHasLengthZero) {
  for (const char* text : {"", "\x80", "\xBF", "\xC2", "\xC1\xBF", "\xC2\x41", "\xE0\x9F\xBF",
                           "\xE0\xA0", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF0\x90\x80",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(utf8_sequence_length(text), 0U) << testing::PrintToString(text);
  }
}

TEST(JsonReader, NamesThePathOfEveryProblem) {
  EXPECT_EQ(problem_of(replace_in_outer("true", "1")), "/flag: expected true or false; got 1");
  EXPECT_EQ(problem_of(replace_in_outer("255", "256")),
            "/small: expected an integer from 0 to 255; got 256");
  EXPECT_EQ(problem_of(replace_in_outer("255", "-1")),
            "/small: expected an integer from 0 to 255; got -1");
  EXPECT_EQ(problem_of(replace_in_outer("255", "1.0")), "/small: expected an integer; got 1.0");
  EXPECT_EQ(problem_of(replace_in_outer("255", "\"1\"")), "/small: expected an integer; got \"1\"");
  EXPECT_EQ(problem_of(replace_in_outer("0.1", "null")), "/real: expected a number; got null");
  EXPECT_EQ(problem_of(replace_in_outer("\"a\"", "7")), "/text: expected a string; got 7");
  EXPECT_EQ(problem_of(replace_in_outer("green", "blue")),
            "/colour: expected red or green; got \"blue\"");
  EXPECT_EQ(problem_of(replace_in_outer("-2", "2147483648")),
            "/map/y: expected an integer from -2147483648 to 2147483647; got 2147483648");
  EXPECT_EQ(problem_of(replace_in_outer("2.5", "[]")),
            "/list/1/maybe: expected a number; got an array");
  EXPECT_EQ(problem_of("[]"), "/: expected an object; got an array");
}

TEST(JsonReader, ErrorListsAllProblems) {
  EXPECT_EQ(
      from_json<Inner>(R"({"maybe":"x","typo":1})").error(),
      (Error{Errc::invalid,
             "/number: required; /maybe: expected a number; got \"x\"; /typo: unknown field"}));
}

TEST(JsonReader, UnknownFieldIsRefusedUnlessIgnored) {
  const std::string text = R"({"number":1,"from_the_future":{}})";
  EXPECT_FALSE(from_json<Inner>(text));
  EXPECT_EQ(from_json<Inner>(text, UnknownFields::ignore)->number, 1);
}

TEST(JsonReader, AnOptionalFieldMayBeMissing) {
  EXPECT_EQ(*from_json<Inner>(R"({"number":1})"), (Inner{1, {}}));
}

TEST(JsonReader, MalformedTextIsInvalid) {
  for (const char* text : {"", "{", "{}x", "nul", "'a'", "{\"a\":}", "[1,]", "\"\xFF\"", "NaN"}) {
    EXPECT_EQ(parse(text).error().code, Errc::invalid) << text;
  }
}

TEST(JsonReader, NestingBeyondMaxDepthIsRefused) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parse(nested(kMaxDepth)));
  EXPECT_FALSE(parse(nested(kMaxDepth + 1)));
  EXPECT_FALSE(parse(std::string(1'000'000, '[')));
}

TEST(JsonReader, NumberTooLargeForDoubleIsRefused) {
  EXPECT_FALSE(from_json<double>("1e400"));
  EXPECT_FALSE(from_json<double>("-1e400"));
}

TEST(JsonReader, TheTextOfProblemsStaysShort) {
  std::string many = R"({"number":1)";
  for (int i = 0; i < 5000; ++i) many += ",\"typo" + std::to_string(i) + "\":1";
  EXPECT_LT(from_json<Inner>(many + "}").error().message.size(), 2000U);
  const std::string one = R"({"number":1,")" + std::string(50'000, 'k') + R"(":1})";
  EXPECT_LT(from_json<Inner>(one).error().message.size(), 2000U);
}

TEST(JsonReader, CorruptedTextFailsOrRoundTrips) {
  constexpr std::string_view kPieces = "{}[]\",:0123456789.eE+-\\untrlfas \x80\xFF";
  std::mt19937 random(3);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text(kOuter);
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      text[random() % text.size()] = kPieces[random() % kPieces.size()];
    }
    const auto read = from_json<Outer>(text, UnknownFields::ignore);
    if (!read) continue;
    ++accepted;
    const auto again = from_json<Outer>(to_json(*read));
    ASSERT_TRUE(again) << text << "\n" << again.error().message;
    EXPECT_EQ(*again, *read) << text;
  }
  EXPECT_GT(accepted, 100);  // fewer would mean the changes were too wild to test anything
}

std::string problem_of_bounded(std::string_view text) {
  const auto read = from_json<Bounded>(text);
  return read ? "" : read.error().message;
}

TEST(JsonReader, RequestOutsideTheBoundsIsRefused) {
  for (const char* const text :
       {"{}", R"({"length":0.5,"count":1,"note":"","places":[0]})",
        R"({"length":10,"count":4294967295,"note":"abc","places":[7,0]})", R"({"length":null})"}) {
    EXPECT_EQ(problem_of_bounded(text), "") << text;
  }
  for (const auto& [text, problem] : {
           std::pair(R"({"length":0.499})", "/length: expected 0.5 to 10; got 0.499"),
           std::pair(R"({"length":11})", "/length: expected 0.5 to 10; got 11"),
           std::pair(R"({"length":1e308})", "/length: expected 0.5 to 10; got 1e+308"),
           std::pair(R"({"length":-1e308})", "/length: expected 0.5 to 10; got -1e+308"),
           std::pair(R"({"length":18446744073709551615})",
                     "/length: expected 0.5 to 10; got 1.8446744073709552e+19"),
           std::pair(R"({"count":0})", "/count: expected at least 1; got 0"),
           std::pair(R"({"count":4294967296})",
                     "/count: expected an integer from 0 to 4294967295; got 4294967296"),
           std::pair(R"({"note":"abcd"})", "/note: expected at most 3 bytes; got 4"),
           std::pair(R"({"note":"\u00e4\u00e4"})", "/note: expected at most 3 bytes; got 4"),
           std::pair(R"({"places":[]})", "/places: expected 1 to 2 entries; got 0"),
           std::pair(R"({"places":[1,2,3]})", "/places: expected 1 to 2 entries; got 3"),
           std::pair(R"({"places":[1,8]})", "/places/1: expected 0 to 7; got 8"),
           std::pair(R"({"places":[-1]})", "/places/0: expected 0 to 7; got -1"),
       }) {
    EXPECT_EQ(problem_of_bounded(text), problem) << text;
  }
}

TEST(JsonReader, ResponseOutsideTheBoundsIsAccepted) {
  const auto read = from_json<Bounded>(
      R"({"length":1e300,"count":0,"note":"a newer one","places":[1,2,3]})", UnknownFields::ignore);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->note, "a newer one");
}

TEST(JsonSchema, SchemaHasTheBoundsOfFields) {
  const auto properties =
      schema(shape_of<Bounded>, SchemaUse::request).at("properties").as_object();
  EXPECT_EQ(properties.at("length"),
            *parse(R"({"type": ["number", "null"], "minimum": 0.5, "maximum": 10})"));
  EXPECT_EQ(properties.at("count"), *parse(R"({"type": ["integer", "null"], "minimum": 1})"));
  EXPECT_EQ(properties.at("note"), *parse(R"({"type": ["string", "null"], "maxLength": 3})"));
  EXPECT_EQ(properties.at("places"),
            *parse(R"({"type": ["array", "null"], "minItems": 1, "maxItems": 2,
                       "items": {"type": "integer", "minimum": 0, "maximum": 7}})"));
}

TEST(JsonSchema, RecordSchemaRequiresEveryField) {
  EXPECT_EQ(boost::json::value(schema(shape_of<Inner>)), *parse(R"({
    "type": "object",
    "properties": {"number": {"type": "integer", "description": "How many."},
                   "maybe": {"type": ["number", "null"]}},
    "required": ["number", "maybe"]})"));
}

TEST(JsonSchema, AnOptionalEnumAllowsNull) {
  EXPECT_EQ(boost::json::value(schema(shape_of<std::optional<Colour>>)),
            *parse(R"({"type": ["string", "null"], "enum": ["red", "green", null]})"));
}

TEST(JsonSchema, ContainersDescribeElementType) {
  const auto properties = schema(shape_of<Outer>).at("properties").as_object();
  EXPECT_EQ(properties.at("list").at("items"), boost::json::value(schema(shape_of<Inner>)));
  EXPECT_EQ(properties.at("map"),
            *parse(R"({"type": "object", "additionalProperties": {"type": "integer"}})"));
}

TEST(JsonUnits, WriteKeysAndUnitsOfTheTable) {
  const WallTime at(std::chrono::milliseconds(1'700'000'000'250));
  EXPECT_EQ(to_json(Typed{"a", std::chrono::milliseconds(1500), {}, at, "x"}),
            R"({"who":"a","seconds":1.5,"limit_s":null,"at":"2023-11-14T22:13:20.250Z"})");
  EXPECT_EQ(to_json(Typed{"", {}, std::chrono::hours(1), {}, "x"}),
            R"({"who":null,"seconds":0,"limit_s":3600,"at":"1970-01-01T00:00:00.000Z"})");
  EXPECT_EQ(to_json(Shown{{"", std::chrono::seconds(2), {}, at, "x"}, true}),
            R"({"at":"2023-11-14T22:13:20.250Z","mine":true,"owner":"","seconds":2})");
}

TEST(JsonUnits, AreReadBackAsWritten) {
  const WallTime at(std::chrono::milliseconds(1'700'000'000'250));
  for (const Typed& typed : {Typed{"a", std::chrono::milliseconds(1500), {}, at, ""},
                             Typed{"", Duration(1), std::chrono::hours(24 * 60), {}, ""}}) {
    const auto read = from_json<Typed>(to_json(typed));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, typed);
  }
}

TEST(JsonUnits, EachDurationOfAQuarterIsExact) {
  std::mt19937_64 random(5);
  std::uniform_int_distribution<Duration::rep> some(0,
                                                    Duration(std::chrono::hours(24 * 97)).count());
  for (int i = 0; i < 10'000; ++i) {
    const Typed typed{"", Duration(some(random)), {}, {}, ""};
    const auto read = from_json<Typed>(to_json(typed));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->took, typed.took);
  }
}

TEST(JsonUnits, InvalidTimeOrDurationIsRefused) {
  const auto problem = [](std::string_view at, std::string_view seconds) {
    const auto read = from_json<Typed>(
        fmt::format(R"({{"who":null,"seconds":{},"limit_s":null,"at":{}}})", seconds, at));
    return read ? std::string() : read.error().message;
  };
  EXPECT_EQ(problem(R"("2026-01-31T12:00:00.250Z")", "1"), "");
  EXPECT_EQ(problem(R"("2026-01-31T12:00:00Z")", "1"), "");
  for (const char* at : {R"("2026-02-30T12:00:00.250Z")", R"("")", R"("12:00")", "7", "null",
                         R"("2026-01-31 12:00:00.250Z")", R"("2026-01-31T12:00:00.250")"}) {
    EXPECT_TRUE(problem(at, "1").starts_with("/at: expected a time such as ")) << at;
  }
  EXPECT_EQ(problem(R"("2026-01-31T12:00:00Z")", "1e300"), "/seconds: out of range");
  EXPECT_EQ(problem(R"("2026-01-31T12:00:00Z")", "\"1\""),
            "/seconds: expected a number; got \"1\"");
}

TEST(JsonUnits, SchemaHasTheFormInJson) {
  const auto made = schema(shape_of<Typed>);
  EXPECT_EQ(boost::json::serialize(made.at("properties")),
            R"({"who":{"type":["string","null"]},"seconds":{"type":"number","description":)"
            R"("How long."},"limit_s":{"type":["number","null"]},"at":{"type":"string"}})");
}

}  // namespace
}  // namespace gpuyard::json
