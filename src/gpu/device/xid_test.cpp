#include "gpu/device/xid.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

TEST(XidTable, KnownXidHasItsSeverity) {
  EXPECT_EQ(xid_row(79).severity, EventSeverity::stop);
  EXPECT_EQ(xid_row(94).severity, EventSeverity::warn);
  EXPECT_EQ(xid_row(13).severity, EventSeverity::note);
  EXPECT_EQ(xid_row(79).meaning, "The GPU has fallen off the bus.");
}

TEST(XidTable, AnUnknownOneIsANote) {
  EXPECT_EQ(xid_row(4711).number, 4711U);
  EXPECT_EQ(xid_row(4711).severity, EventSeverity::note);
  EXPECT_NE(xid_row(4711).meaning, "");
}

TEST(XidTable, NvlinkErrorSeverityComesFromLine) {
  for (std::uint32_t xid = 144; xid <= 150; ++xid) {
    EXPECT_EQ(xid_severity(xid, "NETIR_LINK_DOWN Fatal XC0 i0 Link 14"), EventSeverity::stop)
        << xid;
    EXPECT_EQ(xid_severity(xid, "RLW_SRC_TRACK Nonfatal XC1 i0 Link 17 (0x0)"),
              EventSeverity::note);
    EXPECT_EQ(xid_severity(xid, ""), EventSeverity::warn) << "the driver's event has no words";
    EXPECT_NE(xid_row(xid).meaning.find("NVLink"), std::string_view::npos) << xid;
  }
  EXPECT_EQ(xid_severity(31, "Fatal"), EventSeverity::note);
}

TEST(XidTable, Xid154SeverityFollowsRecoveryAction) {
  const auto changed_to = [](std::string_view action) {
    return xid_severity(154,
                        "GPU recovery action changed from 0x0 (None) to " + std::string(action));
  };
  EXPECT_EQ(changed_to("0x1 (GPU Reset Required)"), EventSeverity::stop);
  EXPECT_EQ(changed_to("0x2 (Node Reboot Required)"), EventSeverity::stop);
  EXPECT_EQ(changed_to("0x4 (Drain and Reset)"), EventSeverity::stop);
  EXPECT_EQ(changed_to("0x3 (Drain P2P)"), EventSeverity::warn);
  EXPECT_EQ(changed_to("0x0 (None)"), EventSeverity::note);
  EXPECT_EQ(xid_severity(154, ""), EventSeverity::warn);
}

TEST(XidTable, KnowsTheXidsOfBlackwell) {
  for (std::uint32_t xid = 144; xid <= 172; ++xid) {
    EXPECT_NE(xid_row(xid).meaning, xid_row(4711).meaning) << xid;
  }
  EXPECT_EQ(xid_row(158).severity, EventSeverity::stop);
}

TEST(XidTable, EveryMeaningIsASentence) {
  for (const XidRow& row : xid_table()) EXPECT_TRUE(row.meaning.ends_with('.')) << row.number;
}

}  // namespace

namespace {

constexpr WallTime at(int second) {
  return WallTime(std::chrono::seconds(second));
}

TEST(XidCounter, CountsEachXidOfEachGpu) {
  XidCounter counts;
  counts.record("GPU-a", 79, at(1));
  counts.record("GPU-a", 13, at(2));
  counts.record("GPU-a", 13, at(5));
  counts.record("GPU-b", 13, at(9));
  EXPECT_EQ(counts.counts_of("GPU-a"), (std::vector<XidCount>{{13, 2, at(5)}, {79, 1, at(1)}}));
  EXPECT_TRUE(counts.counts_of("GPU-c").empty());
}

TEST(XidCounter, OutOfOrderXidKeepsLatestLastSeen) {
  XidCounter counts;
  counts.record("GPU-a", 13, at(5));
  counts.record("GPU-a", 13, at(4));
  EXPECT_EQ(counts.counts_of("GPU-a")[0].last_seen, at(5));
}

TEST(XidCounter, ManyDifferentOnesAreBounded) {
  XidCounter counts;
  for (std::uint32_t xid = 1001; xid <= 1100; ++xid) counts.record("GPU-a", xid, at(1));
  const auto all = counts.counts_of("GPU-a");
  constexpr std::size_t kMaxRows = XidCounter::kMaxDistinct - XidCounter::kReservedForStops;
  ASSERT_EQ(all.size(), kMaxRows + 1);
  EXPECT_EQ(all.back(), (XidCount{{}, 100 - kMaxRows, at(1)}));
  counts.record("GPU-a", 1003, at(2));
  EXPECT_EQ(counts.counts_of("GPU-a")[2].count, 2U)
      << "one of the first is still counted by itself";
}

TEST(XidCounter, StopXidIsCountedDespiteFullTable) {
  XidCounter counts;
  for (std::uint32_t xid = 1001; xid <= 1100; ++xid) counts.record("GPU-a", xid, at(1));
  counts.record("GPU-a", 79, at(2));
  EXPECT_EQ(counts.counts_of("GPU-a").front(), (XidCount{79, 1, at(2)}));
}

}  // namespace
}  // namespace gpuyard
