#include "cli/top/keys.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace gpuyard::cli::top {
namespace {

using Kind = Stroke::Kind;

std::vector<Stroke> strokes_of(std::string bytes) {
  std::vector<Stroke> strokes;
  while (!bytes.empty()) {
    const std::size_t before = bytes.size();
    Stroke stroke = take_stroke(bytes, true);
    if (stroke.what != Kind::none) strokes.push_back(std::move(stroke));
    if (bytes.size() == before) break;
  }
  return strokes;
}

std::vector<Command> commands_of(const std::string& bytes) {
  std::vector<Command> commands;
  for (const Stroke& stroke : strokes_of(bytes)) commands.push_back(command_of(stroke));
  return commands;
}

TEST(Keys, AreLettersAndTheSequencesOfTerminals) {
  EXPECT_EQ(commands_of("jk\x1b[A\x1bOB\x1b[6~q"),
            (std::vector{Command::down, Command::up, Command::up, Command::down, Command::page_down,
                         Command::quit}));
  EXPECT_EQ(commands_of("12345\t?"),
            (std::vector{Command::overview, Command::processes, Command::queue, Command::alerts,
                         Command::usage, Command::next_pane, Command::help}));
}

// F-keys fail on laptops and in terminals of other kinds.
TEST(Keys, EachFunctionKeyHasALetter) {
  EXPECT_EQ(commands_of("\x1bOP\x1bOS\x1b[17~\x1b[20~\x1b[21~"), commands_of("?/>xq"));
}

TEST(Keys, EscapeAndALetterAreTwoKeys) {
  EXPECT_EQ(commands_of("\x1b"), std::vector{Command::back});
  EXPECT_EQ(commands_of("\x1b"
                        "4"),
            (std::vector{Command::back, Command::alerts}));
}

TEST(Keys, IncompleteSequenceWaits) {
  std::string bytes = "\x1b[";
  EXPECT_EQ(take_stroke(bytes, false).what, Kind::none);
  EXPECT_EQ(bytes, "\x1b[");
  bytes += "A";
  EXPECT_EQ(take_stroke(bytes, false).what, Kind::up);
  EXPECT_TRUE(bytes.empty());
}

TEST(Keys, ASignOfSeveralBytesIsOne) {
  std::string bytes = "\xC3";
  EXPECT_EQ(take_stroke(bytes, false).what, Kind::none);
  bytes += "\xA9";
  EXPECT_EQ(take_stroke(bytes, false), (Stroke{Kind::sign, "\u00e9"}));
}

TEST(Keys, TheMouseClicksAndTurnsItsWheel) {
  EXPECT_EQ(strokes_of("\x1b[<0;12;5M\x1b[<0;12;5m\x1b[<64;1;1M\x1b[<65;1;1M"),
            (std::vector{Stroke{Kind::click, "", 11, 4}, Stroke{Kind::wheel_up},
                         Stroke{Kind::wheel_down}}));
  EXPECT_TRUE(strokes_of("\x1b[<0;0;5M\x1b[<;;M\x1b[<0;99999999999999999999;1M").empty());
}

TEST(Keys, UnknownSequencesAreSkippedCompletely) {
  EXPECT_EQ(commands_of("\x1b[1;5Cj\x1b[200~j"), (std::vector{Command::down, Command::down}));
}

TEST(Keys, EveryByteSequenceIsConsumed) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      std::string bytes{'\x1b', static_cast<char>(first), static_cast<char>(second)};
      for (int i = 0; i < 8 && !bytes.empty(); ++i) take_stroke(bytes, true);
      ASSERT_TRUE(bytes.empty()) << first << " " << second;
    }
  }
}

TEST(Keys, HelpFitsTwoColumnsOf80) {
  for (const KeyRow& row : key_rows()) EXPECT_LE(row.help.size(), 29U) << row.help;
}

TEST(Keys, NoTwoRowsHaveTheSameKeyOrCommand) {
  std::set<char> keys;
  std::set<Command> commands;
  for (const KeyRow& row : key_rows()) {
    EXPECT_TRUE(commands.insert(row.command).second) << row.keys;
    if (row.keys.size() == 1 || row.keys[1] == ' ') {
      EXPECT_TRUE(keys.insert(row.keys[0]).second) << row.keys;
    }
  }
}

}  // namespace
}  // namespace gpuyard::cli::top
