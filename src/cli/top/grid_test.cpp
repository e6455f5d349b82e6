#include "cli/top/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "base/text.h"
#include "cli/screen/fitted_table.h"

namespace gpuyard::cli::top {
namespace {

using testing::HasSubstr;
using testing::Not;

// A terminal that knows what diff_bytes() sends: moves, colours and signs.
class FakeTerminal {
 public:
  explicit FakeTerminal(Size size)
      : size_(size), rows_(size.rows, std::vector<std::string>(size.columns, " ")) {}

  void take(std::string_view bytes) {
    while (!bytes.empty()) {
      if (bytes.starts_with("\x1b[")) {
        const std::size_t end = bytes.find_first_of("HJm");
        command(bytes.substr(2, end - 2), bytes[end]);
        bytes.remove_prefix(end + 1);
        continue;
      }
      const std::size_t length = std::max<std::size_t>(utf8_sequence_length(bytes), 1);
      write(bytes.substr(0, length));
      bytes.remove_prefix(length);
    }
  }
  std::string text() const {
    std::string out;
    for (const auto& row : rows_) {
      std::string line;
      for (const std::string& sign : row) line += sign;
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

 private:
  void command(std::string_view parameters, char name) {
    if (name == 'J') {
      for (auto& row : rows_) row.assign(size_.columns, " ");
    }
    if (name != 'H') return;
    row_ = take_number<std::size_t>(parameters).value() - 1;
    parameters.remove_prefix(1);
    column_ = take_number<std::size_t>(parameters).value() - 1;
  }
  void write(std::string_view sign) {
    const std::size_t wide = width_of(sign);
    ASSERT_LT(row_, size_.rows);
    if (wide == 0) {
      rows_[row_][column_ - 1 - (rows_[row_][column_ - 1].empty() ? 1 : 0)] += sign;
      return;
    }
    ASSERT_LE(column_ + wide, size_.columns);
    rows_[row_][column_] = sign;
    for (std::size_t i = 1; i < wide; ++i) rows_[row_][column_ + i] = "";
    column_ += wide;
  }

  Size size_;
  std::vector<std::vector<std::string>> rows_;
  std::size_t row_ = 0;
  std::size_t column_ = 0;
};

TEST(Grid, OverflowingTextIsCut) {
  Grid grid({5, 2});
  EXPECT_EQ(grid.put(2, 0, "abcdef"), 5U);
  EXPECT_EQ(grid.put(0, 1, "abcdef", {}, 3), 3U);
  grid.put(0, 2, "below");
  grid.put(9, 0, "beside");
  EXPECT_EQ(grid.text(), "  abc\nabc\n");
}

TEST(Grid, AWideSignIsWholeOrNotThere) {
  Grid grid({4, 1});
  grid.put(0, 0, "a\u4e2d\u4e2d");
  EXPECT_EQ(grid.text(), "a\u4e2d\n");
  grid.put(2, 0, "b");
  EXPECT_EQ(grid.text(), "a b\n") << "its other half went with it";
}

TEST(Grid, CombiningMarksStayWithCharacterAndAreBounded) {
  Grid grid({4, 1});
  grid.put(0, 0, "e\u0301x");
  EXPECT_EQ(grid.text(), "e\u0301x\n");
  std::string marks = "a";
  for (int i = 0; i < 1000; ++i) marks += "\u0301";
  grid.put(0, 0, marks);
  EXPECT_LT(grid.text().str().size(), 64U);
}

TEST(Grid, EscapeSequencesOfStrangersAreHarmless) {
  Grid grid({20, 1});
  grid.put(0, 0, "a\x1b[31mb\x07\n");
  EXPECT_EQ(grid.text(), "a?[31mb??\n");
}

TEST(Grid, OnlyChangedCellsAreSent) {
  Grid before({40, 3});
  before.put(0, 1, "power 612 W");
  Grid after = before;
  EXPECT_EQ(after.diff_bytes(before, Palette::of_16), "");
  after.put(6, 1, "613");
  EXPECT_EQ(after.diff_bytes(before, Palette::of_16), "\x1b[2;9H\x1b[0m3\x1b[0m");
}

TEST(Grid, ColorsFollowTerminalPalette) {
  Grid grid({4, 1});
  grid.put(0, 0, "x", {Tone::good});
  const Grid none({0, 0});
  EXPECT_THAT(grid.diff_bytes(none, Palette::true_color), HasSubstr("38;2;"));
  EXPECT_THAT(grid.diff_bytes(none, Palette::of_256), HasSubstr("38;5;"));
  EXPECT_THAT(grid.diff_bytes(none, Palette::of_16), HasSubstr("\x1b[0;32m"));
  EXPECT_THAT(grid.diff_bytes(none, Palette::mono), Not(HasSubstr("3")));
}

TEST(Grid, ThePaletteNeedsNoTerminfo) {
  EXPECT_EQ(palette_of("xterm-256color", "truecolor", true), Palette::true_color);
  EXPECT_EQ(palette_of("xterm-256color", "", true), Palette::of_256);
  EXPECT_EQ(palette_of("some-terminal-nobody-knows", "", true), Palette::of_16);
  EXPECT_EQ(palette_of("dumb", "truecolor", true), Palette::mono);
  EXPECT_EQ(palette_of("xterm", "truecolor", false), Palette::mono);
}

// A terminal that gets only the differences shows what a fresh one would.
TEST(Grid, DifferencesAddUpToTheWhole) {
  std::mt19937 chance(7);  // NOLINT: the same in each run
  const Size size{30, 6};
  FakeTerminal terminal(size);
  Grid before({0, 0});
  const std::vector<std::string> words = {"abc", "\u4e2d\u6587", "e\u0301", "612",
                                          " ",   "\U0001F600",   "W"};
  Grid grid(size);
  for (int round = 0; round < 2000; ++round) {
    const auto any = [&](std::size_t most) {
      return std::uniform_int_distribution<std::size_t>(0, most)(chance);
    };
    grid.put(any(size.columns), any(size.rows), words[any(words.size() - 1)],
             {static_cast<Tone>(any(6)), any(1) == 1});
    terminal.take(grid.diff_bytes(before, Palette::of_256));
    before = grid;
    ASSERT_EQ(terminal.text(), grid.text()) << round;
  }
}

TEST(Sparkline, HasTheNewestAtItsEnd) {
  const std::vector<double> values = {0, 0.5, 1, kNoValue};
  EXPECT_EQ(sparkline(values, 6, Charset::block), "  \u00b7\u2584\u2588 ");
  EXPECT_EQ(sparkline(values, 3, Charset::ascii), "=# ");
  EXPECT_EQ(sparkline({}, 2, Charset::ascii), "  ");
  EXPECT_EQ(sparkline({1, 1}, 2, Charset::braille), "\u2800\u28ff");
}

TEST(Meter, IsFilledByItsShare) {
  EXPECT_EQ(meter(0.5, 4, Charset::ascii), "##..");
  EXPECT_EQ(meter(2, 3, Charset::block), "\u2593\u2593\u2593");
  EXPECT_EQ(meter(-1, 2, Charset::block), "\u00b7\u00b7");
}

}  // namespace
}  // namespace gpuyard::cli::top
