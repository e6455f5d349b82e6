#include "gpuyard/sparkline.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::string percent(std::vector<double> values) {
  return sparkline(values);
}
std::string linear(std::vector<double> values, double max) {
  return sparkline(values, max);
}

TEST(Sparkline, PercentagesHaveEightBands) {
  RecordProperty("contract", "C11");
  EXPECT_EQ(percent({45, 67, 82, 91, 88, 75, 60}), "▃▅▆█▇▅▄");
  EXPECT_EQ(percent({0, 13, 25, 50, 63, 78, 85, 90}), "▁▂▃▄▅▆▇█") << "the lower bounds";
  EXPECT_EQ(percent({12.9, 24.9, 49.9, 62.9, 77.9, 84.9, 89.9, 100}), "▁▂▃▄▅▆▇█")
      << "just below the next";
}

TEST(Sparkline, ValuesAreInEightEqualPartsOfTheirMax) {
  RecordProperty("contract", "C11");
  EXPECT_EQ(linear({0, 1, 2, 3, 4, 5, 6, 7, 8}, 8), "▁▂▃▄▅▆▇██");
  EXPECT_EQ(linear({0, 350, 700}, 700), "▁▅█");
}

TEST(Sparkline, WhatIsOutsideHasTheNearestHeight) {
  EXPECT_EQ(percent({-5, 250, kInfinite, -kInfinite}), "▁██▁");
  EXPECT_EQ(linear({-5, 250, kInfinite, -kInfinite}, 100), "▁██▁");
  EXPECT_EQ(linear({0, 5}, 0), "▁▁");
  EXPECT_EQ(linear({0, 5}, kNothing), "▁▁");
}

TEST(Sparkline, WhatIsMissingIsABlank) {
  EXPECT_EQ(percent({90, kNothing, 0}), "█ ▁");
  EXPECT_EQ(linear({8, kNothing}, 8), "█ ");
  EXPECT_EQ(percent({}), "");
}

}  // namespace
}  // namespace gpuyard
