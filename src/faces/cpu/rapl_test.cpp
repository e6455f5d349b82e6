#include "faces/cpu/rapl.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include <gtest/gtest.h>

#include "faces/cpu/rapl_tree_for_tests.h"

namespace gpuyard::cpu {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class RaplFiles : public ::testing::Test {
 protected:
  PackageEnergy only() {
    const auto energies = rapl_.read();
    EXPECT_EQ(energies.packages.size(), 1U);
    return energies.packages.at(0);
  }

  RaplTree tree_;
  Rapl rapl_{tree_.root()};
};

TEST_F(RaplFiles, EveryPackageIsReadWithItsMemory) {
  tree_.put_package(1, 20);
  tree_.put_package(0, 10);
  tree_.put_package(10, 30);
  tree_.put_dram(0, 5);
  const auto energies = rapl_.read();
  ASSERT_EQ(energies.packages.size(), 3U);
  EXPECT_EQ(energies.packages[0].number, 0U);
  EXPECT_EQ(energies.packages[0].name, "package-0");
  EXPECT_EQ(*energies.packages[0].energy_uj, 10);
  EXPECT_EQ(**energies.packages[0].dram_uj, 5);
  EXPECT_EQ(*energies.packages[1].energy_uj, 20);
  EXPECT_FALSE(energies.packages[1].dram_uj);
  EXPECT_EQ(energies.packages[2].number, 10U);
  EXPECT_EQ(energies.unavailable_reason, "");
}

TEST_F(RaplFiles, EachCounterGoesRoundOnItsOwn) {
  tree_.put_package(0, RaplTree::kRange - 100);
  tree_.put_dram(0, RaplTree::kRange - 5);
  rapl_.read();
  RaplTree::set(tree_.package(0), 50);
  EXPECT_EQ(*only().energy_uj, RaplTree::kRange + 50);
  RaplTree::set(tree_.subzone(0, 1), 1);
  EXPECT_EQ(**only().dram_uj, RaplTree::kRange + 1);
  EXPECT_EQ(*only().energy_uj, RaplTree::kRange + 50);
}

TEST_F(RaplFiles, MissingPackagesNameSearchedPath) {
  const auto none = rapl_.read();
  EXPECT_TRUE(none.packages.empty());
  EXPECT_THAT(none.unavailable_reason, HasSubstr(tree_.root()));
  const auto nowhere = Rapl("/nowhere/powercap").read();
  EXPECT_TRUE(nowhere.packages.empty());
  EXPECT_THAT(nowhere.unavailable_reason, HasSubstr("reading /nowhere/powercap: No such file"));
}

TEST_F(RaplFiles, MissingCounterIsErrorNotZero) {
  tree_.put_package(0, 10);
  std::filesystem::remove(tree_.package(0) + "/energy_uj");
  EXPECT_EQ(only().energy_uj.error().code, Errc::not_found);
}

TEST_F(RaplFiles, CounterDropWithoutRangeRestartsCount) {
  tree_.put_package(0, 10);
  std::filesystem::remove(tree_.package(0) + "/max_energy_range_uj");
  EXPECT_EQ(*only().energy_uj, 10);
  RaplTree::set(tree_.package(0), 4);
  EXPECT_EQ(*only().energy_uj, 4);
}

TEST_F(RaplFiles, ReturningPackageContinuesItsTotal) {
  tree_.put_package(0, 10);
  rapl_.read();
  std::filesystem::remove_all(tree_.package(0));
  EXPECT_TRUE(rapl_.read().packages.empty());
  tree_.put_package(0, 3);
  EXPECT_EQ(*only().energy_uj, RaplTree::kRange + 3);
}

TEST_F(RaplFiles, NonsenseIsAnErrorAndNoFigure) {
  tree_.put_package(0, 10);
  for (const char* text : {"", "\n", "x", "1x", "-1", "+1", "1 2", " 1", "0x10", "1e9", "1.5",
                           "9007199254740993", "99999999999999999999999999", "1\n2\n"}) {
    RaplTree::write(tree_.package(0) + "/energy_uj", text);
    EXPECT_FALSE(only().energy_uj) << text;
  }
  RaplTree::write(tree_.package(0) + "/energy_uj", std::string(100'000, '1'));
  EXPECT_FALSE(only().energy_uj);
  std::filesystem::remove(tree_.package(0) + "/energy_uj");
  std::filesystem::create_directory(tree_.package(0) + "/energy_uj");
  EXPECT_FALSE(only().energy_uj);
}

TEST_F(RaplFiles, NamesThatAreNoPackagesAreLeftAlone) {
  for (const char* name : {"intel-rapl:", "intel-rapl:x", "intel-rapl:-1", "intel-rapl:64",
                           "intel-rapl:99999999999", "amd-rapl:0", "dtpm"}) {
    RaplTree::put_zone(tree_.root() + "/" + name, "package-0", 7);
  }
  EXPECT_TRUE(rapl_.read().packages.empty());
}

TEST_F(RaplFiles, SubzonesBeyondLimitAreIgnored) {
  tree_.put_package(0, 10);
  for (unsigned i = 0; i < 20; ++i) {
    RaplTree::put_zone(tree_.subzone(0, i), i < 16 ? "core" : "dram", 1);
  }
  EXPECT_FALSE(only().dram_uj);
}

// Runs as a user to whom the kernel does not show the counters; root always sees them.
TEST_F(RaplFiles, RootOnlyCounterIsDeniedWithHint) {
  tree_.put_package(0, 10);
  ASSERT_EQ(::chmod(tree_.root().c_str(), 0755), 0);
  ASSERT_EQ(::chmod((tree_.package(0) + "/energy_uj").c_str(), 0), 0);
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(2);
    const auto energies = rapl_.read();
    const auto& energy = energies.packages.at(0).energy_uj;
    const bool denied = !energy && energy.error().code == Errc::denied;
    ::_exit(denied && energy.error().text().find("root") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ::waitpid(stranger, &status, 0);
  EXPECT_EQ(status, 0);
}

// Root loses the right to read by setuid(2), other users by the mode.
TEST_F(RaplFiles, CounterIsReadAfterItsRightIsLost) {
  tree_.put_package(0, 10);
  tree_.put_dram(0, 5);
  Rapl opened(tree_.root());
  RaplTree::set(tree_.package(0), 20);
  ASSERT_EQ(::chmod(tree_.root().c_str(), 0755), 0);
  for (const std::string& zone : {tree_.package(0), tree_.subzone(0, 1)}) {
    ASSERT_EQ(::chmod((zone + "/energy_uj").c_str(), 0), 0);
  }
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(2);
    const auto denied = Rapl(tree_.root()).read();
    const auto read = opened.read();
    const auto& package = read.packages.at(0);
    const bool good = !denied.packages.at(0).energy_uj && package.energy_uj &&
                      *package.energy_uj == 20 && package.dram_uj && *package.dram_uj &&
                      **package.dram_uj == 5;
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ::waitpid(stranger, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(EnergyCounter, StartsAtHardwareValue) {
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

TEST(EnergyCounter, DecreaseWithoutRangeIsReset) {
  EnergyCounter counter;
  counter.count(950, std::nullopt);
  EXPECT_EQ(counter.count(30, std::nullopt), 30);
  EXPECT_EQ(counter.count(40, std::nullopt), 40);
}

TEST(EnergyCounter, ValueBeyondRangeIsNoWraparound) {
  EnergyCounter counter;
  counter.count(5000, 1000);
  EXPECT_EQ(counter.count(30, 1000), 30);
}

TEST(EnergyCounter, TotalStopsAtMaximum) {
  EnergyCounter counter;
  for (int i = 0; i < 5000; ++i) {
    counter.count(kMaxMicrojoules, kMaxMicrojoules);
    EXPECT_EQ(counter.count(kMaxMicrojoules - 1, kMaxMicrojoules), kMaxMicrojoules);
  }
}

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

TEST(CpuPower, IdlePackageHasZeroPower) {
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

TEST(CpuPower, PowerAcrossResetOrNoTimeIsUnknown) {
  EXPECT_FALSE(power_between(at(milliseconds(0), 9), at(milliseconds(1), 7))[0].milliwatts);
  EXPECT_FALSE(power_between(at(milliseconds(1), 7), at(milliseconds(1), 9))[0].milliwatts);
}

TEST(CpuPower, ImplausiblePowerIsMissing) {
  EXPECT_FALSE(
      power_between(at(milliseconds(0), 0), at(milliseconds(1), kMaxMicrojoules))[0].milliwatts);
}

}  // namespace
}  // namespace gpuyard::cpu
