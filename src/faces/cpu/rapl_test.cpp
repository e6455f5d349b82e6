#include "cpu/rapl.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cpu/rapl_tree_for_tests.h"

namespace gpuyard::cpu {
namespace {

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
  EXPECT_EQ(energies.why_none, "");
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

TEST_F(RaplFiles, AMachineWithoutPackagesSaysWhereItLooked) {
  const auto none = rapl_.read();
  EXPECT_TRUE(none.packages.empty());
  EXPECT_THAT(none.why_none, HasSubstr(tree_.root()));
  const auto nowhere = Rapl("/nowhere/powercap").read();
  EXPECT_TRUE(nowhere.packages.empty());
  EXPECT_THAT(nowhere.why_none, HasSubstr("reading /nowhere/powercap: No such file"));
}

TEST_F(RaplFiles, APackageWhoseCounterIsNotThereSaysSoAndIsNotZero) {
  tree_.put_package(0, 10);
  std::filesystem::remove(tree_.package(0) + "/energy_uj");
  EXPECT_EQ(only().energy_uj.error().code, Errc::not_found);
}

TEST_F(RaplFiles, AFallOfACounterWithoutItsRangeIsANewBeginning) {
  tree_.put_package(0, 10);
  std::filesystem::remove(tree_.package(0) + "/max_energy_range_uj");
  EXPECT_EQ(*only().energy_uj, 10);
  RaplTree::set(tree_.package(0), 4);
  EXPECT_EQ(*only().energy_uj, 4);
}

TEST_F(RaplFiles, APackageThatVanishedAndCameBackGoesOn) {
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

TEST_F(RaplFiles, MoreSubzonesThanThereCanBeAreNotSearched) {
  tree_.put_package(0, 10);
  for (unsigned i = 0; i < 20; ++i) {
    RaplTree::put_zone(tree_.subzone(0, i), i < 16 ? "core" : "dram", 1);
  }
  EXPECT_FALSE(only().dram_uj);
}

// As a user to whom the kernel does not show the counters, which root never is.
TEST_F(RaplFiles, ACounterOfRootsIsDeniedWithTheWayOut) {
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
    ::_exit(denied && energy.error().message.find("root") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ::waitpid(stranger, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace gpuyard::cpu
