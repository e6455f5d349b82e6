#include "cli/screen/fitted_table.h"

#include <gtest/gtest.h>

#include "cli/screen/terminal.h"

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

TEST(FittedTable, ShowsEverythingWhereThereIsNoEnd) {
  EXPECT_EQ(example_table().text({}),
            "GPU  NAME  UTIL       UUID\n"
            "  0  H100  #### 97 %  GPU-1\n");
}

TEST(FittedTable, WhatDoesNotFitGoesInTheStatedOrder) {
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

TEST(FittedTable, WhatNeverGoesIsCut) {
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

TEST(Bar, SomethingIsNotNothing) {
  EXPECT_EQ(bar({}, Tone::good, 0.001, 4), "#---");
  EXPECT_EQ(bar({}, Tone::good, 0, 4), "----");
}

TEST(Table, AlignsByCharactersNotByBytes) {
  const Table table{{"A", "B"}, {false, true}, {{"45\u00B0C", "1"}, {"x", "100"}}};
  EXPECT_EQ(table.text(), "A       B\n45\u00B0C    1\nx     100\n");
}

TEST(Table, LeavesNoBlanksAtTheEndOfALine) {
  const Table table{{"A", "LONG HEADING"}, {false, false}, {{"1", "x"}}};
  EXPECT_EQ(table.text(), "A  LONG HEADING\n1  x\n");
}

}  // namespace
}  // namespace gpuyard::cli
