#include "cli/screen/fitted_table.h"

#include <gtest/gtest.h>

#include "cli/screen/screen.h"

namespace gpuyard::cli {
namespace {

Screen screen_of(std::size_t columns) {
  Screen screen;
  screen.terminal = true;
  screen.columns = columns;
  screen.utf8 = true;
  return screen;
}

FittedTable example_table() {
  const Cell number{"97 %", Tone::plain, "####"};
  return {{{"GPU", true, 0, 0, {{"0"}}},
           {"NAME", false, 1, 0, {{"H100"}}},
           {"UTIL", true, 0, 2, {number}},
           {"UUID", false, 3, 0, {{"GPU-1"}}}}};
}

TEST(FittedTable, UnlimitedWidthShowsEverything) {
  EXPECT_EQ(example_table().text({}),
            "GPU  NAME  UTIL       UUID\n"
            "  0  H100  #### 97 %  GPU-1\n");
}

TEST(FittedTable, NarrowScreenDropsColumnsInOrder) {
  EXPECT_EQ(example_table().text(screen_of(26)),
            "GPU  NAME  UTIL\n"
            "  0  H100  #### 97 %\n");
  EXPECT_EQ(example_table().text(screen_of(17)),
            "GPU  NAME  UTIL\n"
            "  0  H100  97 %\n");
  EXPECT_EQ(example_table().text(screen_of(14)),
            "GPU  UTIL\n"
            "  0  97 %\n");
}

TEST(FittedTable, RequiredColumnsAreCut) {
  EXPECT_EQ(example_table().text(screen_of(7)),
            "GPU  U\u2026\n"
            "  0  9\u2026\n");
}

TEST(FittedTable, ColoursDoNotMoveTheColumns) {
  Screen screen = screen_of(40);
  screen.color = true;
  FittedTable table{{{"A", false, 0, 0, {{"x", Tone::bad}}}, {"B", false, 0, 0, {{"y"}}}}};
  EXPECT_EQ(table.text(screen), "\x1b[2mA\x1b[0m  \x1b[2mB\x1b[0m\n\x1b[1;31mx\x1b[0m  y\n");
}

TEST(Bar, IsAShareOfItsWidth) {
  const Screen screen = screen_of(80);
  EXPECT_EQ(bar(screen, Tone::good, 0.5, 4), "\u2501\u2501\u2500\u2500");
  EXPECT_EQ(bar({}, Tone::good, 0.5, 4), "##--");
  EXPECT_EQ(bar({}, Tone::good, 7, 4), "####");
  EXPECT_EQ(bar({}, Tone::good, -1, 4), "----");
}

TEST(Bar, SmallShareShowsOneCell) {
  EXPECT_EQ(bar({}, Tone::good, 0.001, 4), "#---");
  EXPECT_EQ(bar({}, Tone::good, 0, 4), "----");
}

TEST(Table, AlignsByCharactersNotByBytes) {
  FittedTable table{{{"A"}, {"B", true}}};
  table.add({{"45\u00B0C"}, {"1"}});
  table.add({{"x"}, {"100"}});
  EXPECT_EQ(table.text(Screen{}), "A       B\n45\u00B0C    1\nx     100\n");
}

TEST(Table, LeavesNoBlanksAtTheEndOfALine) {
  FittedTable table{{{"A"}, {"LONG HEADING"}}};
  table.add({{"1"}, {"x"}});
  EXPECT_EQ(table.text(Screen{}), "A  LONG HEADING\n1  x\n");
}

}  // namespace

namespace {

using Lines = std::vector<std::string>;

TEST(Width, IsCountedInColumnsNotInBytes) {
  EXPECT_EQ(width_of(""), 0U);
  EXPECT_EQ(width_of("45\u00B0C"), 4U);
  EXPECT_EQ(width_of("\u6f22\u5b57"), 4U);  // two Chinese characters
  EXPECT_EQ(width_of("\U0001F600"), 2U);
  EXPECT_EQ(width_of("e\u0301"), 1U);  // a combining accent
  EXPECT_EQ(width_of("\xff\xfe"), 2U);
}

TEST(Width, ColoursTakeNoRoom) {
  EXPECT_EQ(visible_width("\x1b[1;31mGPU\x1b[0m 3"), 5U);
  EXPECT_EQ(visible_width("\x1b[broken"), 0U);
}

TEST(Cut, OverlongTextIsShortenedToWidth) {
  EXPECT_EQ(truncate_text("H100", 4, true), "H100");
  EXPECT_EQ(truncate_text("H100 80GB", 6, true), "H100 \u2026");
  EXPECT_EQ(truncate_text("H100 80GB", 6, false), "H10...");
  EXPECT_EQ(truncate_text("H100", 2, false), "H1");
  EXPECT_EQ(truncate_text("H100", 0, true), "");
}

TEST(Cut, NeverHalvesACharacter) {
  EXPECT_EQ(truncate_text("\u6f22\u5b57\u6f22", 4, true), "\u6f22\u2026");
}

TEST(Wrapped, BreaksAtBlanks) {
  EXPECT_EQ(wrap_text("the driver did not answer", 10), (Lines{"the driver", "did not", "answer"}));
  EXPECT_EQ(wrap_text("short", 10), Lines{"short"});
  EXPECT_EQ(wrap_text("", 10), Lines{""});
}

TEST(Wrapped, TooLongWordIsSplit) {
  EXPECT_EQ(wrap_text("abcdefgh", 3), (Lines{"abc", "def", "gh"}));
  EXPECT_EQ(wrap_text("\u6f22\u5b57", 1), (Lines{"\xe6", "\xbc", "\xa2", "\xe5", "\xad", "\x97"}));
}

TEST(FittedTable, AHeadingIsNotCutForItsPadding) {
  FittedTable table{{{"GPU"}, {"MESSAGE"}}};
  table.add({{"0"}, {std::string(60, 'x')}});
  EXPECT_TRUE(table.text({.columns = 20}).str().starts_with("GPU  MESSAGE\n"));
}

}  // namespace
}  // namespace gpuyard::cli
