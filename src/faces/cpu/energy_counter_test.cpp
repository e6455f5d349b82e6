#include "cpu/energy_counter.h"

#include <gtest/gtest.h>

namespace gpuyard::cpu {
namespace {

TEST(EnergyCounter, BeginsWithWhatTheHardwareHasCounted) {
  EnergyCounter counter;
  EXPECT_EQ(counter.count(700, 1000), 700);
  EXPECT_EQ(counter.count(700, 1000), 700);
  EXPECT_EQ(counter.count(950, 1000), 950);
}

TEST(EnergyCounter, GoesOnWhenTheHardwareBeginsAgain) {
  EnergyCounter counter;
  counter.count(950, 1000);
  EXPECT_EQ(counter.count(30, 1000), 1030);
  EXPECT_EQ(counter.count(10, 1000), 2010);
  EXPECT_EQ(counter.count(1000, 1000), 3000);
  EXPECT_EQ(counter.count(0, 1000), 3000);
}

TEST(EnergyCounter, WithoutARangeAFallIsANewBeginning) {
  EnergyCounter counter;
  counter.count(950, std::nullopt);
  EXPECT_EQ(counter.count(30, std::nullopt), 30);
  EXPECT_EQ(counter.count(40, std::nullopt), 40);
}

TEST(EnergyCounter, ANumberBeyondItsRangeDidNotGoRoundInIt) {
  EnergyCounter counter;
  counter.count(5000, 1000);
  EXPECT_EQ(counter.count(30, 1000), 30);
}

TEST(EnergyCounter, EndsAtItsMostAndDoesNotOverflow) {
  EnergyCounter counter;
  for (int i = 0; i < 5000; ++i) {
    counter.count(kMostMicrojoules, kMostMicrojoules);
    EXPECT_EQ(counter.count(kMostMicrojoules - 1, kMostMicrojoules), kMostMicrojoules);
  }
}

}  // namespace
}  // namespace gpuyard::cpu
