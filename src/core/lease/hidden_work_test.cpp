#include "core/lease/hidden_work.h"

#include <gtest/gtest.h>

namespace gpuyard::lease {
namespace {

using std::chrono::seconds;

TimePoint at(int second) {
  return TimePoint{} + seconds(100 + second);
}

Activity busy(int second) {
  return {at(second), true, "97 % utilisation"};
}

Activity idle(int second) {
  return {at(second)};
}

TEST(HiddenWork, IsFoundAfterThreeBusyReadingsInARow) {
  HiddenWork work;
  work.note(idle(0));
  work.note(busy(1));
  work.note(busy(2));
  EXPECT_FALSE(work.found());
  work.note(busy(3));
  EXPECT_EQ(work.found(), "97 % utilisation");
}

TEST(HiddenWork, OneReadingNotedTwiceCountsOnce) {
  HiddenWork work;
  work.note(idle(0));
  for (int i = 0; i < 5; ++i) work.note(busy(1));
  EXPECT_FALSE(work.found());
}

TEST(HiddenWork, AnIdleReadingBetweenBusyOnesStartsOver) {
  HiddenWork work;
  for (int second = 0; second < 12; ++second) {
    work.note(second % 3 == 0 ? idle(second) : busy(second));
    EXPECT_FALSE(work.found()) << second;
  }
}

TEST(HiddenWork, ABusyFirstReadingIsEnough) {
  HiddenWork work;
  work.note(busy(0));
  EXPECT_TRUE(work.found());
}

TEST(HiddenWork, LastsUntilTheGpuWasIdleForTenSeconds) {
  HiddenWork work;
  work.note(busy(0));
  work.note(idle(9));
  EXPECT_TRUE(work.found());
  work.note(idle(10));
  EXPECT_FALSE(work.found());
}

TEST(HiddenWork, WorkThatIsAccountedForIsNotHidden) {
  HiddenWork work;
  work.note(busy(0));
  work.accounted_for();
  EXPECT_FALSE(work.found());
  work.note(busy(1));
  work.note(busy(2));
  EXPECT_FALSE(work.found());
  work.note(busy(3));
  EXPECT_TRUE(work.found());
}

}  // namespace
}  // namespace gpuyard::lease
