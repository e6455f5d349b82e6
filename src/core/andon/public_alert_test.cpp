#include <gtest/gtest.h>

#include "gpuyard/andon.h"

namespace gpuyard {
namespace {

const Alert kHot{ThermalThrottling{2, 87, 80}};
const Alert kFull{MemoryPressure{0, 95.2, 90}};
const Alert kPower{PowerLimitReached{1, 98.44, 97.5}};
const Alert kIdle{GpuIdle{3, 612, 300}};

TEST(Alert, OfEachKindNamesGpuValueAndThreshold) {
  RecordProperty("contract", "C8 C9");
  EXPECT_EQ(kHot.message(), "GPU 2: temperature is 87 C, threshold 80 C");
  EXPECT_EQ(kFull.message(), "GPU 0: memory is 95.2 % used, threshold 90 %");
  EXPECT_EQ(kPower.message(), "GPU 1: power is 98.4 % of its limit, threshold 97.5 %");
  EXPECT_EQ(kIdle.message(), "GPU 3: idle for 612 s, threshold 300 s: possible hang");
}

TEST(Alert, OfEachKindHasItsOwnSeverity) {
  RecordProperty("contract", "C9");
  EXPECT_EQ(kHot.severity(), 57);
  EXPECT_EQ(kFull.severity(), 80);
  EXPECT_EQ(kPower.severity(), 50);
  EXPECT_EQ(kIdle.severity(), 90);
}

TEST(Alert, IsALineForATerminal) {
  RecordProperty("contract", "C9");
  EXPECT_EQ(kHot.line(), "ALERT [severity 57]: GPU 2: temperature is 87 C, threshold 80 C");
}

TEST(Alert, HasALevelAndAGpu) {
  RecordProperty("contract", "C9");
  EXPECT_EQ(kIdle.device(), 3U);
  EXPECT_EQ(kIdle.level(), AlertLevel::critical);
  EXPECT_EQ(name_of(kIdle.level()), "critical");
  EXPECT_EQ(name_of(kHot.level()), "warning");
}

}  // namespace
}  // namespace gpuyard
