#include "base/printable.h"

#include <string>

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/log.h"

namespace gpuyard {
namespace {

TEST(Printable, NoEscapeSequenceOfAStrangerReachesTheTerminal) {
  EXPECT_EQ(printable("a\x1b[2Jb\nc\x7f"), "a?[2Jb?c?");
  EXPECT_EQ(printable("\u009b2J"), "?2J") << "the one-character form";
  EXPECT_EQ(printable("\xff"), "?");
  EXPECT_EQ(printable("K\u00F6ln \u6f22\u5b57 \U0001F600"), "K\u00F6ln \u6f22\u5b57 \U0001F600");
}

TEST(Printable, NothingTurnsTheDirectionOfWritingOrBreaksALine) {
  for (const char* const hidden : {"\u202e", "\u2066", "\u2069", "\u200f", "\u061c", "\u2028"}) {
    EXPECT_EQ(printable(std::string("nohtyp") + hidden + "x"), "nohtyp?x");
  }
}

TEST(Printable, IsWhatTheLogShows) {
  const CapturedLog log;
  log::warning("pid 7 ({}) is gone", "\u009b2J\u202egpj\nERROR");
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_NE(log.lines().front().find("pid 7 (?2J?gpj?ERROR) is gone"), std::string::npos);
}

}  // namespace
}  // namespace gpuyard
