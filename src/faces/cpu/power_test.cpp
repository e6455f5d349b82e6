#include "cpu/power.h"

#include <gtest/gtest.h>

namespace gpuyard::cpu {
namespace {

using std::chrono::milliseconds;

Energies at(milliseconds time, Result<std::int64_t> energy,
            std::optional<Result<std::int64_t>> dram = std::nullopt) {
  Energies energies;
  energies.taken = TimePoint(time);
  energies.packages.push_back({0, "package-0", std::move(energy), std::move(dram)});
  return energies;
}

TEST(CpuPower, IsEnergyOverTime) {
  const auto powers = power_between(at(milliseconds(1000), 5'000'000, 100),
                                    at(milliseconds(1500), 55'000'000, 500'100));
  ASSERT_EQ(powers.size(), 1U);
  EXPECT_EQ(*powers[0].milliwatts, 100'000);
  EXPECT_EQ(**powers[0].dram_milliwatts, 1'000);
}

TEST(CpuPower, OfAnIdlePackageIsZeroBecauseItWasMeasured) {
  const auto powers = power_between(at(milliseconds(0), 7), at(milliseconds(100), 7));
  EXPECT_EQ(*powers[0].milliwatts, 0);
  EXPECT_FALSE(powers[0].dram_milliwatts);
}

TEST(CpuPower, WithoutBothReadingsIsUnknown) {
  const Error denied{Errc::denied, "no"};
  EXPECT_EQ(
      power_between(at(milliseconds(0), denied), at(milliseconds(1), 7))[0].milliwatts.error().code,
      Errc::denied);
  EXPECT_EQ(
      power_between(at(milliseconds(0), 7), at(milliseconds(1), denied))[0].milliwatts.error().code,
      Errc::denied);
  EXPECT_FALSE(power_between({}, at(milliseconds(1), 7))[0].milliwatts);
  EXPECT_FALSE(
      *power_between(at(milliseconds(0), 7), at(milliseconds(1), 7, 7))[0].dram_milliwatts);
}

TEST(CpuPower, AcrossANewBeginningOrNoTimeIsUnknown) {
  EXPECT_FALSE(power_between(at(milliseconds(0), 9), at(milliseconds(1), 7))[0].milliwatts);
  EXPECT_FALSE(power_between(at(milliseconds(1), 7), at(milliseconds(1), 9))[0].milliwatts);
}

TEST(CpuPower, MoreThanAnyMachineHasIsNone) {
  EXPECT_FALSE(
      power_between(at(milliseconds(0), 0), at(milliseconds(1), kMostMicrojoules))[0].milliwatts);
}

}  // namespace
}  // namespace gpuyard::cpu
