#include "sim/scenario_table.h"

#include <gtest/gtest.h>

namespace gpuyard::sim {
namespace {

using namespace std::chrono_literals;

TEST(ParseTime, HasUnitsAndSecondsWithoutOne) {
  EXPECT_EQ(*parse_time("500ms"), 500ms);
  EXPECT_EQ(*parse_time("10s"), 10s);
  EXPECT_EQ(*parse_time("1.5m"), 90s);
  EXPECT_EQ(*parse_time("168h"), 168h);
  EXPECT_EQ(*parse_time("0.25"), 250ms);
  EXPECT_EQ(*parse_time("0"), 0ms);
}

TEST(ParseTime, IsWholeStepsOfTheWorld) {
  for (const char* text : {"5ms", "0.001s", "15ms"}) {
    EXPECT_EQ(parse_time(text).error().code, Errc::invalid) << text;
  }
}

TEST(ParseTime, InvalidDurationIsRefused) {
  for (const char* text : {"", "s", "ten", "-1s", "1 s", "1d", "169h", "1e300h", "nan", "inf"}) {
    EXPECT_EQ(parse_time(text).error().code, Errc::invalid) << text;
  }
}

}  // namespace
}  // namespace gpuyard::sim
