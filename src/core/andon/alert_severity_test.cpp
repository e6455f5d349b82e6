#include "core/andon/alert_severity.h"

#include <array>
#include <limits>

#include <gtest/gtest.h>

namespace gpuyard::andon {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Severity, ThermalIsFiftyPlusOnePerExcessDegree) {
  RecordProperty("contract", "C9");
  EXPECT_EQ(thermal_severity(80, 80), 50);
  EXPECT_EQ(thermal_severity(80.9, 80), 50);
  EXPECT_EQ(thermal_severity(87, 80), 57);
  EXPECT_EQ(thermal_severity(130, 80), 100);
  EXPECT_EQ(thermal_severity(300, 80), 100);
}

TEST(Severity, MemoryRisesAt95And99Percent) {
  RecordProperty("contract", "C9");
  EXPECT_EQ(memory_severity(90), 60);
  EXPECT_EQ(memory_severity(94.9), 60);
  EXPECT_EQ(memory_severity(95), 80);
  EXPECT_EQ(memory_severity(98.9), 80);
  EXPECT_EQ(memory_severity(99), 100);
}

TEST(Severity, PowerRisesAtLimit) {
  RecordProperty("contract", "C9");
  EXPECT_EQ(power_severity(95), 50);
  EXPECT_EQ(power_severity(99.9), 50);
  EXPECT_EQ(power_severity(100), 70);
  EXPECT_EQ(power_severity(120), 70);
}

TEST(Severity, IdleStepsUpAboveTimeoutMultiples) {
  RecordProperty("contract", "C9");
  EXPECT_EQ(idle_severity(300, 300), 40);
  EXPECT_EQ(idle_severity(450, 300), 40);
  EXPECT_EQ(idle_severity(451, 300), 70);
  EXPECT_EQ(idle_severity(600, 300), 70);
  EXPECT_EQ(idle_severity(601, 300), 90);
}

TEST(Severity, HasFourLevels) {
  RecordProperty("contract", "C9");
  EXPECT_EQ(level_of(0), AlertLevel::info);
  EXPECT_EQ(level_of(39), AlertLevel::info);
  EXPECT_EQ(level_of(40), AlertLevel::warning);
  EXPECT_EQ(level_of(59), AlertLevel::warning);
  EXPECT_EQ(level_of(60), AlertLevel::error);
  EXPECT_EQ(level_of(79), AlertLevel::error);
  EXPECT_EQ(level_of(80), AlertLevel::critical);
  EXPECT_EQ(level_of(100), AlertLevel::critical);
}

TEST(Severity, AnyInputYieldsValueWithinBounds) {
  RecordProperty("contract", "C9");
  constexpr std::array kOdd = {kInfinity, -kInfinity, kNan, 0.0, -1.0, 1e308};
  for (const double value : kOdd) {
    EXPECT_GE(memory_severity(value), 60);
    EXPECT_GE(power_severity(value), 50);
    for (const double limit : kOdd) {
      EXPECT_GE(thermal_severity(value, limit), 50) << value << " of " << limit;
      EXPECT_LE(thermal_severity(value, limit), 100) << value << " of " << limit;
      EXPECT_GE(idle_severity(value, limit), 40) << value << " of " << limit;
    }
  }
}

}  // namespace
}  // namespace gpuyard::andon
