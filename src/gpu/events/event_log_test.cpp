#include "gpu/events/event_log.h"

#include <cstdint>
#include <string>
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

std::vector<std::uint64_t> sequences_since(const EventLog& event_log, std::uint64_t sequence) {
  std::vector<std::uint64_t> sequences;
  event_log.each_since(sequence, [&](const Event& one) { sequences.push_back(one.sequence); });
  return sequences;
}

TEST(EventLog, AddNumbersFromOneAndNotifiesListener) {
  EventLog event_log;
  std::vector<std::string> received;
  event_log.set_listener(
      [&](const Event& one) { received.push_back(std::to_string(one.sequence) + " " + one.text); });
  event_log.add(event_named("first"));
  EXPECT_EQ(event_log.add(event_named("second")).sequence, 2U);
  EXPECT_EQ(received, (std::vector<std::string>{"1 first", "2 second"}));
  EXPECT_EQ(event_log.last_sequence(), 2U);
}

TEST(EventLog, ReturnsEventsAfterSequence) {
  EventLog event_log;
  for (int i = 0; i < 5; ++i) event_log.add(event_named("x"));
  EXPECT_EQ(sequences_since(event_log, 3), (std::vector<std::uint64_t>{4, 5}));
  EXPECT_EQ(sequences_since(event_log, 0).size(), 5U);
  EXPECT_TRUE(sequences_since(event_log, 5).empty());
  EXPECT_TRUE(sequences_since(event_log, 99).empty());
}

TEST(EventLog, EvictedSequencesAreNotRemembered) {
  EventLog event_log;
  EXPECT_TRUE(event_log.contains_since(0));
  EXPECT_FALSE(event_log.contains_since(1)) << "of another epoch";
  for (std::size_t i = 0; i < EventLog::kMaxEvents + 10; ++i) event_log.add(event_named("x"));
  EXPECT_FALSE(event_log.contains_since(9));
  EXPECT_TRUE(event_log.contains_since(10));
  EXPECT_EQ(sequences_since(event_log, 10).size(), EventLog::kMaxEvents);
  EXPECT_EQ(sequences_since(event_log, 0).front(), 11U);
}

TEST(EventLog, CutsATextThatIsTooLong) {
  EventLog event_log;
  EXPECT_EQ(event_log.add(event_named(std::string(5000, 'x'))).text.size(),
            EventLog::kMaxTextBytes);
}

TEST(EventLog, HasAnotherEpochInEveryDaemon) {
  EXPECT_EQ(EventLog().epoch().size(), 16U);
  EXPECT_NE(EventLog().epoch(), EventLog().epoch());
}

}  // namespace

}  // namespace gpuyard::events
