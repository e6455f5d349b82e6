#include "events/journal.h"

#include <vector>

#include <gtest/gtest.h>

namespace gpuyard::events {
namespace {

Event event_named(const std::string& text) {
  Event event;
  event.kind = "xid";
  event.text = text;
  return event;
}

std::vector<std::uint64_t> sequences_since(const Journal& journal, std::uint64_t sequence) {
  std::vector<std::uint64_t> sequences;
  journal.each_since(sequence, [&](const Event& one) { sequences.push_back(one.sequence); });
  return sequences;
}

TEST(Journal, NumbersFromOneAndTellsItsListener) {
  Journal journal;
  std::vector<std::string> told;
  journal.on_added(
      [&](const Event& one) { told.push_back(std::to_string(one.sequence) + " " + one.text); });
  journal.add(event_named("first"));
  EXPECT_EQ(journal.add(event_named("second")).sequence, 2U);
  EXPECT_EQ(told, (std::vector<std::string>{"1 first", "2 second"}));
  EXPECT_EQ(journal.last(), 2U);
}

TEST(Journal, GivesWhatCameAfterASequence) {
  Journal journal;
  for (int i = 0; i < 5; ++i) journal.add(event_named("x"));
  EXPECT_EQ(sequences_since(journal, 3), (std::vector<std::uint64_t>{4, 5}));
  EXPECT_EQ(sequences_since(journal, 0).size(), 5U);
  EXPECT_TRUE(sequences_since(journal, 5).empty());
  EXPECT_TRUE(sequences_since(journal, 99).empty());
}

TEST(Journal, KnowsWhatItHasForgotten) {
  Journal journal;
  EXPECT_TRUE(journal.remembers_since(0));
  EXPECT_FALSE(journal.remembers_since(1)) << "of another epoch";
  for (std::size_t i = 0; i < Journal::kKept + 10; ++i) journal.add(event_named("x"));
  EXPECT_FALSE(journal.remembers_since(9));
  EXPECT_TRUE(journal.remembers_since(10));
  EXPECT_EQ(sequences_since(journal, 10).size(), Journal::kKept);
  EXPECT_EQ(sequences_since(journal, 0).front(), 11U);
}

TEST(Journal, CutsATextThatIsTooLong) {
  Journal journal;
  EXPECT_EQ(journal.add(event_named(std::string(5000, 'x'))).text.size(), Journal::kMostText);
}

TEST(Journal, HasAnotherEpochInEveryDaemon) {
  EXPECT_EQ(Journal().epoch().size(), 16U);
  EXPECT_NE(Journal().epoch(), Journal().epoch());
}

}  // namespace
}  // namespace gpuyard::events
