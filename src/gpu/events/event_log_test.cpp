#include "gpu/events/event_log.h"

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

TEST(EventLog, AddNumbersFromOneAndNotifiesListener) {
  EventLog event_log;
  std::vector<std::string> received;
  event_log.set_listener(
      [&](const Event& one) { received.push_back(std::to_string(one.sequence) + " " + one.text); });
  event_log.add(event_named("first"));
  EXPECT_EQ(event_log.add(event_named("second")).sequence, 2U);
  EXPECT_EQ(received, (std::vector<std::string>{"1 first", "2 second"}));
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
