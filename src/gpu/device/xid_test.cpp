#include "device/xid.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

TEST(XidTable, SaysHowBadAnXidIs) {
  EXPECT_EQ(xid_row(79).severity, Severity::stop);
  EXPECT_EQ(xid_row(94).severity, Severity::warn);
  EXPECT_EQ(xid_row(13).severity, Severity::note);
  EXPECT_EQ(xid_row(79).meaning, "The GPU has fallen off the bus.");
}

TEST(XidTable, AnUnknownOneIsANote) {
  EXPECT_EQ(xid_row(4711).number, 4711U);
  EXPECT_EQ(xid_row(4711).severity, Severity::note);
  EXPECT_NE(xid_row(4711).meaning, "");
}

TEST(XidTable, EveryMeaningIsASentence) {
  for (const XidRow& row : xid_table()) EXPECT_TRUE(row.meaning.ends_with('.')) << row.number;
}

}  // namespace

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
