#include "cli/screen/text_width.h"

#include <gtest/gtest.h>

namespace gpuyard::cli {
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

TEST(Cut, KeepsWhatFits) {
  EXPECT_EQ(cut_to("H100", 4, true), "H100");
  EXPECT_EQ(cut_to("H100 80GB", 6, true), "H100 \u2026");
  EXPECT_EQ(cut_to("H100 80GB", 6, false), "H10...");
  EXPECT_EQ(cut_to("H100", 2, false), "H1");
  EXPECT_EQ(cut_to("H100", 0, true), "");
}

TEST(Cut, NeverHalvesACharacter) {
  EXPECT_EQ(cut_to("\u6f22\u5b57\u6f22", 4, true), "\u6f22\u2026");
}

TEST(Wrapped, BreaksAtBlanks) {
  EXPECT_EQ(wrapped("the driver did not answer", 10), (Lines{"the driver", "did not", "answer"}));
  EXPECT_EQ(wrapped("short", 10), Lines{"short"});
  EXPECT_EQ(wrapped("", 10), Lines{""});
}

TEST(Wrapped, AWordThatIsTooLongIsCutInPieces) {
  EXPECT_EQ(wrapped("abcdefgh", 3), (Lines{"abc", "def", "gh"}));
  EXPECT_EQ(wrapped("\u6f22\u5b57", 1), (Lines{"\xe6", "\xbc", "\xa2", "\xe5", "\xad", "\x97"}));
}

}  // namespace
}  // namespace gpuyard::cli
