#include "device/xid_table.h"

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
}  // namespace gpuyard
