#include "io/notify/notified_levels.h"

#include <gmock/gmock.h>

#include "io/notify/notification_for_tests.h"

namespace gpuyard::notify {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Notice at(Level level, Notice notice = hot_gpu()) {
  notice.level = level;
  return notice;
}

std::vector<std::string> words(const std::vector<Notice>& notices) {
  std::vector<std::string> all;
  for (const Notice& notice : notices) {
    all.push_back(std::string(enum_name(notice.status)) + " " +
                  std::string(enum_name(notice.level)));
  }
  return all;
}

TEST(NotifiedLevels, NewOrSameLevelIsUnchanged) {
  NotifiedLevels levels;
  EXPECT_THAT(words(levels.completed({at(Level::error)}, kNoon)), ElementsAre("firing error"));
  levels.note({at(Level::error)});
  EXPECT_THAT(words(levels.completed({at(Level::error)}, kNoon)), ElementsAre("firing error"));
  EXPECT_THAT(words(levels.completed({}, kNoon)), IsEmpty());
}

TEST(NotifiedLevels, ChangedLevelResolvesOldLevelFirst) {
  NotifiedLevels levels;
  levels.note({at(Level::error)});
  const auto worse = levels.completed({at(Level::critical)}, kNoon);
  EXPECT_THAT(words(worse), ElementsAre("resolved error", "firing critical"));
  EXPECT_EQ(worse.front().ended_at, kNoon);
  levels.note(worse);
  EXPECT_THAT(words(levels.completed({at(Level::critical)}, kNoon)),
              ElementsAre("firing critical"));
}

TEST(NotifiedLevels, ResolvedUsesLastNotifiedLevel) {
  NotifiedLevels levels;
  levels.note({at(Level::critical)});
  const auto over = levels.completed({at(Level::warning, cool_again())}, kNoon);
  EXPECT_THAT(words(over), ElementsAre("resolved critical"));
  EXPECT_EQ(over.front().ended_at, cool_again().ended_at);
  levels.note(over);
  EXPECT_THAT(words(levels.completed({at(Level::error)}, kNoon)), ElementsAre("firing error"));
}

TEST(NotifiedLevels, TellAlertsApart) {
  NotifiedLevels levels;
  levels.note({at(Level::error)});
  Notice other = at(Level::critical);
  other.key = "hot/GPU-4";
  EXPECT_THAT(words(levels.completed({other}, kNoon)), ElementsAre("firing critical"));
}

}  // namespace
}  // namespace gpuyard::notify
