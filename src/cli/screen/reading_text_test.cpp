#include "cli/screen/reading_text.h"

#include <stdlib.h>
#include <time.h>

#include <gtest/gtest.h>

#include "cli/read/reader_for_tests.h"

namespace gpuyard::cli {
namespace {

class LocalMoment : public testing::Test {
 protected:
  // Sets a zone two hours east of Greenwich, whatever the machine's own zone is.
  LocalMoment() { set_zone("TEST-2"); }
  ~LocalMoment() override { set_zone(nullptr); }

  static void set_zone(const char* zone) {
    zone != nullptr ? ::setenv("TZ", zone, 1) : ::unsetenv("TZ");
    ::tzset();
  }
};

TEST_F(LocalMoment, OfTodayIsATime) {
  EXPECT_EQ(local_moment("2026-01-31T12:05:59.250Z", kNow), "14:05");
  EXPECT_EQ(local_moment("2026-01-30T22:00:00Z", kNow), "00:00");
}

TEST_F(LocalMoment, OfAnotherDayHasItsDate) {
  EXPECT_EQ(local_moment("2026-01-31T22:00:00.000Z", kNow), "2026-02-01 00:00");
  EXPECT_EQ(local_moment("2027-01-31T12:00:00.000Z", kNow), "2027-01-31 14:00");
}

TEST_F(LocalMoment, WhatIsNoTimeIsAsItWas) {
  EXPECT_EQ(local_moment("soon", kNow), "soon");
  EXPECT_EQ(local_moment("", kNow), "");
}

}  // namespace
}  // namespace gpuyard::cli
