#include "base/saturated.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kEndless = std::numeric_limits<double>::infinity();

TEST(Saturated, FractionOfANumberInRangeIsDropped) {
  EXPECT_EQ(saturated_cast<std::int64_t>(-1.9), -1);
  EXPECT_EQ(saturated_cast<std::uint8_t>(254.5), 254);
  EXPECT_EQ(saturated_cast<std::int64_t>(9007199254740991.0), 9007199254740991);
}

TEST(Saturated, NumberOutOfRangeBecomesTheNearestLimit) {
  for (const double great : {9.3e18, 1e308, kEndless}) {
    EXPECT_EQ(saturated_cast<std::int64_t>(great), INT64_MAX) << great;
    EXPECT_EQ(saturated_cast<std::int64_t>(-great), INT64_MIN) << great;
    EXPECT_EQ(saturated_cast<std::uint64_t>(-great), 0U) << great;
  }
  EXPECT_EQ(saturated_cast<std::uint8_t>(256), 255);
  EXPECT_EQ(saturated_cast<std::int64_t>(kNone), 0);
}

TEST(Saturated, DurationOutOfRangeBecomesTheNearestLimit) {
  EXPECT_EQ(duration_from_seconds(1.5), std::chrono::milliseconds(1500));
  EXPECT_EQ(duration_from_seconds(9.3e9), Duration::max());
  EXPECT_EQ(duration_from_seconds(1e308), Duration::max());
  EXPECT_EQ(duration_from_seconds(-1e308), Duration::min());
  EXPECT_EQ(duration_from_seconds(kNone), Duration::zero());
}

}  // namespace
}  // namespace gpuyard
