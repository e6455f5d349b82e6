#include "base/retention.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

using Names = std::vector<std::string>;

TEST(Retention, EntriesBeforeHorizonAreRemoved) {
  Retention<int> past;
  past.add(1, "a", 10);
  past.add(2, "b", 11);
  past.add(1, "c", 12);
  EXPECT_EQ(past.evict(10, 9), Names{});
  EXPECT_EQ(past.evict(12, 9), (Names{"a", "b"}));
  EXPECT_EQ(past.evict(13, 9), Names{"c"});
}

TEST(Retention, AnEndInTheFutureKeepsNoOther) {
  Retention<int> past;
  past.add(1, "of a wrong clock", 1000);
  past.add(1, "a", 10);
  EXPECT_EQ(past.evict(11, 9), Names{"a"});
}

TEST(Retention, LimitEvictsFromOwnerWithMostEntries) {
  Retention<int> past;
  past.add(2, "hers", 0);
  for (int i = 1; i <= 5; ++i) past.add(1, std::to_string(i), i);
  EXPECT_EQ(past.evict(0, 3), (Names{"1", "2", "3"}));
  past.add(2, "hers too", 9);
  past.add(2, "her third", 10);
  EXPECT_EQ(past.evict(0, 4), Names{"hers"}) << "who has most by now";
}

TEST(Retention, RemovedItemsAreNotCounted) {
  Retention<int> past;
  past.add(1, "a", 10);
  past.add(1, "b", 11);
  past.add(2, "c", 12);
  past.remove({"a", "c", "unknown"});
  EXPECT_EQ(past.evict(0, 1), Names{});
  EXPECT_EQ(past.evict(20, 1), Names{"b"});
}

}  // namespace
}  // namespace gpuyard
