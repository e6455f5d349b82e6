#include "device/xid_counts.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

constexpr WallTime at(int second) {
  return WallTime(std::chrono::seconds(second));
}

TEST(XidCounts, CountsEachXidOfEachGpu) {
  XidCounts counts;
  counts.note("GPU-a", 79, at(1));
  counts.note("GPU-a", 13, at(2));
  counts.note("GPU-a", 13, at(5));
  counts.note("GPU-b", 13, at(9));
  EXPECT_EQ(counts.of("GPU-a"), (std::vector<XidCount>{{13, 2, at(5)}, {79, 1, at(1)}}));
  EXPECT_TRUE(counts.of("GPU-c").empty());
}

TEST(XidCounts, TheLastOneSeenIsTheLatestWhateverTheOrder) {
  XidCounts counts;
  counts.note("GPU-a", 13, at(5));
  counts.note("GPU-a", 13, at(4));
  EXPECT_EQ(counts.of("GPU-a")[0].last_seen, at(5));
}

TEST(XidCounts, ManyDifferentOnesAreBounded) {
  XidCounts counts;
  for (std::uint32_t xid = 1; xid <= 100; ++xid) counts.note("GPU-a", xid, at(1));
  const auto all = counts.of("GPU-a");
  ASSERT_EQ(all.size(), XidCounts::kMostDistinct + 1);
  EXPECT_EQ(all.back(), (XidCount{{}, 100 - XidCounts::kMostDistinct, at(1)}));
  counts.note("GPU-a", 3, at(2));
  EXPECT_EQ(counts.of("GPU-a")[2].count, 2U) << "one of the first is still counted by itself";
}

}  // namespace
}  // namespace gpuyard
