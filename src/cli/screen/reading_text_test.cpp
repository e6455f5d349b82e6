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

TEST_F(LocalMoment, InvalidTimeStaysUnchanged) {
  EXPECT_EQ(local_moment("soon", kNow), "soon");
  EXPECT_EQ(local_moment("", kNow), "");
}

TEST(ModelsText, OfOneModelIsItsNumberAndName) {
  EXPECT_EQ(models_text({"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"}), "2 H100 80GB HBM3");
  EXPECT_EQ(models_text({"Tesla T4"}), "1 T4");
  EXPECT_EQ(models_text({}), "0 GPUs");
}

TEST(ModelsText, OfSeveralModelsNamesEach) {
  EXPECT_EQ(
      models_text({"NVIDIA GeForce RTX 4090", "NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 4090",
                   "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "Tesla T4"}),
      "2 RTX 4090, 2 H100, A100, T4");
}

TEST(ModelsText, OfModelsThatDifferInMemoryKeepsIt) {
  EXPECT_EQ(models_text({"NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", "Tesla T4"}),
            "A100-SXM4-40GB, A100-SXM4-80GB, T4");
}

}  // namespace
}  // namespace gpuyard::cli
