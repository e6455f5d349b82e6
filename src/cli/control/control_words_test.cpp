#include "cli/control/control_words.h"

#include <gtest/gtest.h>

namespace gpuyard::cli {
namespace {

TEST(Watts, MayHaveTheirUnitAndADecimalPoint) {
  for (const char* text : {"300", "300W", "300w", "300 W", "300.0", "3e2"}) {
    const auto watts = parse_watts(text);
    ASSERT_TRUE(watts.ok()) << text;
    EXPECT_EQ(*watts, 300'000) << text;
  }
  EXPECT_EQ(*parse_watts("287.5"), 287'500);
  EXPECT_EQ(*parse_watts("0.0004W") + *parse_watts("0.0006W"), 1) << "to the nearest milliwatt";
}

TEST(Watts, WhatIsNoPowerIsRefusedWithWhatWouldBe) {
  for (const char* text : {"", "W", "0", "-300", "300mW", "300 kW", "300,5", "300W W", "nan", "inf",
                           "1e7", "3 0 0", "+300"}) {
    const auto watts = parse_watts(text);
    ASSERT_FALSE(watts.ok()) << text;
    EXPECT_EQ(watts.error().code, Errc::invalid);
    EXPECT_NE(watts.error().message.find("like 300, 300W or 287.5"), std::string::npos);
  }
}

TEST(Clocks, AreTheLowestAndTheHighestOrOneForBoth) {
  EXPECT_EQ(*parse_clocks("1200,1500"), (ClockRange{1200, 1500}));
  EXPECT_EQ(*parse_clocks("1200 MHz, 1500mhz"), (ClockRange{1200, 1500}));
  EXPECT_EQ(*parse_clocks("1400"), (ClockRange{1400, 1400}));
}

TEST(Clocks, TheLowestIsNotAboveTheHighest) {
  const auto clocks = parse_clocks("1500,1200");
  ASSERT_FALSE(clocks.ok());
  EXPECT_EQ(clocks.error().message, "the lowest of 1500,1200 is above the highest");
}

TEST(Clocks, WhatIsNoClockIsRefusedWithWhatWouldBe) {
  for (const char* text : {"", ",", "1200,", ",1500", "1,2,3", "1200-1500", "1.2", "-1,5", "0",
                           "99999999999999999999", "1200GHz"}) {
    const auto clocks = parse_clocks(text);
    ASSERT_FALSE(clocks.ok()) << text;
    EXPECT_EQ(clocks.error().code, Errc::invalid);
    EXPECT_NE(clocks.error().message.find("like 1200,1500"), std::string::npos) << text;
  }
}

TEST(OnOff, IsOneOfTheTwo) {
  EXPECT_TRUE(*parse_on_off("on"));
  EXPECT_FALSE(*parse_on_off("OFF"));
  for (const char* text : {"", "1", "true", "onn"}) EXPECT_FALSE(parse_on_off(text).ok()) << text;
}

}  // namespace
}  // namespace gpuyard::cli
