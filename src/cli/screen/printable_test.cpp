#include "cli/screen/printable.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/json_reader.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/output.h"
#include "cli/screen/screen.h"

namespace gpuyard::cli {
namespace {

// One of each kind: an escape sequence, a line end, C1 in UTF-8 and as a byte, a change of text
// direction.
constexpr std::string_view kHostile = "\x1b]0;PWN\x07\x1b[31m\nX\u009b\x9b\u202e";

bool is_harmless(std::string_view text) {
  return printable(text) == text;
}

// Types that enter a Printable without a call that replaces characters.
static_assert(std::is_convertible_v<const char (&)[4], Printable>);
static_assert(!std::is_convertible_v<std::string, Printable>);
static_assert(!std::is_convertible_v<std::string_view, Printable>);
static_assert(!std::is_convertible_v<const char*, Printable>);
static_assert(!std::is_constructible_v<Printable, char (&)[4]>);

template <class T>
concept CanBePrinted = requires(const T& text) { print(text); };
static_assert(CanBePrinted<Printable>);
static_assert(!CanBePrinted<std::string>);

TEST(Printable, ReplacesControlCharacters) {
  EXPECT_TRUE(is_harmless(Printable(kHostile)));
  EXPECT_EQ(Printable("a" + std::string(1, '\x1b') + "b"), "a?b");
}

TEST(Printable, KeepsTheProgramsOwnText) {
  EXPECT_EQ(Printable("\x1b[1mGPU\x1b[0m\n"), "\x1b[1mGPU\x1b[0m\n");
}

TEST(Printable, ReplacesControlCharactersInFormattedStrings) {
  const std::vector<std::string> names = {"\x1b[31m", "b"};
  const Printable text = formatted("{} {:>3} {}\n", kHostile, 7, fmt::join(names, ","));
  ASSERT_TRUE(text.str().ends_with("\n"));
  EXPECT_TRUE(is_harmless(text.str().substr(0, text.str().size() - 1)));
  EXPECT_EQ(formatted("{}!", Printable("\n")), "\n!");
}

TEST(Printable, KeepsOnlyTheLineEndsOfSeveralLines) {
  EXPECT_EQ(Printable::lines("a\nb\x1b\n"), "a\nb?\n");
  EXPECT_EQ(Printable("a\nb\n").split(), (std::vector<Printable>{"a", "b"}));
}

TEST(Printable, EscapesJsonWithoutChangingIt) {
  const std::string text = "C1 \u009b, bidi \u202e, DEL \x7f, plain \u00e9";
  const Printable json = json_line(text);
  EXPECT_TRUE(is_harmless(json.str().substr(0, json.str().size() - 1)));
  EXPECT_EQ(*json::from_json<std::string>(json.str()), text);
  EXPECT_EQ(Printable::json("{\n  \"a\": 1\n}\n"), "{\n  \"a\": 1\n}\n");
  EXPECT_EQ(Printable::json("\"\x1b\x9b\""), "\"\\u001b\\ufffd\"");
}

TEST(Printable, IsHarmlessInTablesAndParagraphs) {
  FittedTable table{{{std::string(kHostile)}}};
  table.add({{std::string(kHostile), Tone::bad}});
  std::string all = table.text({}).str() + paragraph({}, Tone::bad, kHostile).str();
  EXPECT_EQ(std::ranges::count(all, '\n'), 3);
  std::erase(all, '\n');
  EXPECT_TRUE(is_harmless(all));
  EXPECT_TRUE(is_harmless(painted({}, Tone::good, kHostile)));
}

}  // namespace
}  // namespace gpuyard::cli
