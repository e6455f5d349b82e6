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

TEST(HiddenWork, ThreeConsecutiveBusyReadingsAreEvidence) {
  HiddenWork work;
  work.update(idle(0));
  work.update(busy(1));
  work.update(busy(2));
  EXPECT_FALSE(work.evidence());
  work.update(busy(3));
  EXPECT_EQ(work.evidence(), "97 % utilisation");
}

TEST(HiddenWork, RepeatedReadingCountsOnce) {
  HiddenWork work;
  work.update(idle(0));
  for (int i = 0; i < 5; ++i) work.update(busy(1));
  EXPECT_FALSE(work.evidence());
}

TEST(HiddenWork, AnIdleReadingBetweenBusyOnesStartsOver) {
  HiddenWork work;
  for (int second = 0; second < 12; ++second) {
    work.update(second % 3 == 0 ? idle(second) : busy(second));
    EXPECT_FALSE(work.evidence()) << second;
  }
}

TEST(HiddenWork, ABusyFirstReadingIsEnough) {
  HiddenWork work;
  work.update(busy(0));
  EXPECT_TRUE(work.evidence());
}

TEST(HiddenWork, EvidenceLastsUntilTenIdleSeconds) {
  HiddenWork work;
  work.update(busy(0));
  work.update(idle(9));
  EXPECT_TRUE(work.evidence());
  work.update(idle(10));
  EXPECT_FALSE(work.evidence());
}

TEST(HiddenWork, AccountedWorkIsNotHidden) {
  HiddenWork work;
  work.update(busy(0));
  work.mark_accounted();
  EXPECT_FALSE(work.evidence());
  work.update(busy(1));
  work.update(busy(2));
  EXPECT_FALSE(work.evidence());
  work.update(busy(3));
  EXPECT_TRUE(work.evidence());
}

}  // namespace
}  // namespace gpuyard::lease
