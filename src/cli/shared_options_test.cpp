#include "cli/shared_options.h"

#include <gtest/gtest.h>

namespace gpuyard::cli {
namespace {

using namespace std::chrono_literals;

TEST(Split, PartsHaveNoBlanksAround) {
  EXPECT_EQ(split("a, b,c", ','), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(split("", ','), std::vector<std::string>{""});
  EXPECT_EQ(split("a,", ','), (std::vector<std::string>{"a", ""}));
}

TEST(Interval, HasAUnitOrIsInSeconds) {
  EXPECT_EQ(*parse_interval("500ms"), 500ms);
  EXPECT_EQ(*parse_interval("2s"), 2s);
  EXPECT_EQ(*parse_interval("2"), 2s);
  EXPECT_EQ(*parse_interval("0.5"), 500ms);
  EXPECT_EQ(*parse_interval("1m"), 1min);
  EXPECT_EQ(*parse_interval("24h"), 24h);
}

TEST(Interval, OutsideOfItsLimitsIsRefused) {
  for (const char* text : {"", "s", "0", "99ms", "25h", "-1s", "1 s", "1d", "nan", "inf", "1e99"}) {
    const auto interval = parse_interval(text);
    ASSERT_FALSE(interval.ok()) << text;
    EXPECT_EQ(interval.error().code, Errc::invalid);
  }
}

TEST(Lifetime, MayBeDays) {
  EXPECT_EQ(*parse_lifetime("90"), 90s);
  EXPECT_EQ(*parse_lifetime("30m"), 30min);
  EXPECT_EQ(*parse_lifetime("1.5h"), 90min);
  EXPECT_EQ(*parse_lifetime("2d"), 48h);
  for (const char* text : {"", "0s", "-30m", "0.5s", "366d", "30 m", "1w", "nan"}) {
    const auto lifetime = parse_lifetime(text);
    ASSERT_FALSE(lifetime.ok()) << text;
    EXPECT_EQ(lifetime.error().code, Errc::invalid);
  }
}

}  // namespace
}  // namespace gpuyard::cli
