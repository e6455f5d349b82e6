#include "io/notify/notified_levels.h"

#include <gmock/gmock.h>

#include "io/notify/notification_for_tests.h"

namespace gpuyard::notify {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Notification at(NotificationLevel level, Notification notice = hot_gpu()) {
  notice.level = level;
  return notice;
}

std::vector<std::string> words(const std::vector<Notification>& notices) {
  std::vector<std::string> all;
  for (const Notification& notice : notices) {
    all.push_back(std::string(enum_name(notice.status)) + " " +
                  std::string(enum_name(notice.level)));
  }
  return all;
}

TEST(NotifiedLevels, NewOrSameLevelIsUnchanged) {
  NotifiedLevels levels;
  EXPECT_THAT(words(levels.add_level_changes({at(NotificationLevel::error)}, kNoon)),
              ElementsAre("firing error"));
  levels.record({at(NotificationLevel::error)});
  EXPECT_THAT(words(levels.add_level_changes({at(NotificationLevel::error)}, kNoon)),
              ElementsAre("firing error"));
  EXPECT_THAT(words(levels.add_level_changes({}, kNoon)), IsEmpty());
}

TEST(NotifiedLevels, ChangedLevelResolvesOldLevelFirst) {
  NotifiedLevels levels;
  levels.record({at(NotificationLevel::error)});
  const auto worse = levels.add_level_changes({at(NotificationLevel::critical)}, kNoon);
  EXPECT_THAT(words(worse), ElementsAre("resolved error", "firing critical"));
  EXPECT_EQ(worse.front().ended_at, kNoon);
  levels.record(worse);
  EXPECT_THAT(words(levels.add_level_changes({at(NotificationLevel::critical)}, kNoon)),
              ElementsAre("firing critical"));
}

TEST(NotifiedLevels, ResolvedUsesLastNotifiedLevel) {
  NotifiedLevels levels;
  levels.record({at(NotificationLevel::critical)});
  const auto over = levels.add_level_changes({at(NotificationLevel::warning, cool_again())}, kNoon);
  EXPECT_THAT(words(over), ElementsAre("resolved critical"));
  EXPECT_EQ(over.front().ended_at, cool_again().ended_at);
  levels.record(over);
  EXPECT_THAT(words(levels.add_level_changes({at(NotificationLevel::error)}, kNoon)),
              ElementsAre("firing error"));
}

TEST(NotifiedLevels, TellAlertsApart) {
  NotifiedLevels levels;
  levels.record({at(NotificationLevel::error)});
  Notification other = at(NotificationLevel::critical);
  other.key = "hot/GPU-4";
  EXPECT_THAT(words(levels.add_level_changes({other}, kNoon)), ElementsAre("firing critical"));
}

}  // namespace
}  // namespace gpuyard::notify
