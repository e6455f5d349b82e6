#include "core/processes/group_makers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard::processes {
namespace {

constexpr std::uint32_t kUser = 1001;
constexpr std::uint32_t kInside = 165'536;  // a user inside a container

// Uses plain directories: group directories have owners in the same way.
class GroupMakersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can change the owner of a directory";
  }
  void make(const std::string& path, std::uint32_t owner) const {
    std::filesystem::create_directories(unified_.in(path));
    ASSERT_EQ(::chown(unified_.in(path).c_str(), owner, owner), 0);
  }
  GroupMakers makers(const std::string& root = "/") const {
    return GroupMakers::parse("25 20 0:22 / /proc rw - proc proc rw\n31 24 0:26 " + root + " " +
                              unified_.path() + " rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  }

  const ScratchDirectory unified_;
};

TEST_F(GroupMakersTest, GroupInAUsersDirectoryIsThatUsers) {
  make("system.slice/delegated.service", kUser);
  make("system.slice/delegated.service/docker", kUser);
  make("system.slice/delegated.service/user@7.service/docker", kUser);
  make("system.slice/delegated.service/user@7.service", kUser);
  const std::string service = "/system.slice/delegated.service";
  EXPECT_EQ(makers()({"", service + "/docker"}), kUser);
  EXPECT_EQ(makers()({"", service + "/user@7.service/docker"}), kUser);
}

TEST_F(GroupMakersTest, GroupInRootsDirectoryIsRoots) {
  make("system.slice/a.service/docker", 0);
  EXPECT_EQ(makers()({"", "/system.slice/a.service/docker"}), 0U);
}

TEST_F(GroupMakersTest, DelegatedGroupIsRoots) {
  make("system.slice/a.service/docker", kInside);
  EXPECT_EQ(makers()({"", "/system.slice/a.service/docker"}), 0U);
}

TEST_F(GroupMakersTest, OwnerOfASliceOverridesItsName) {
  make("users.slice", kUser);
  make("users.slice/docker", kUser);
  EXPECT_EQ(makers()({"", "/users.slice/docker"}), kUser);
  EXPECT_EQ(GroupMakers()({"", "/users.slice/docker"}), 0U) << "by the path alone";
}

TEST_F(GroupMakersTest, OwnerIsIgnoredBelowAUserManager) {
  make("user.slice/user@7.service/docker", 0);
  EXPECT_EQ(makers()({"", "/user.slice/user@7.service/docker"}), 7U);
}

TEST_F(GroupMakersTest, InvisibleDirectoryLeavesTheMakerUnknown) {
  make("docker", kUser);
  EXPECT_EQ(makers()({"", "/a.service/docker"}), std::nullopt);
  EXPECT_EQ(makers()({"", "/../a.service/../docker"}), std::nullopt) << "above the mount";
  EXPECT_EQ(makers()({"memory", "/a.service/docker"}), std::nullopt) << "another hierarchy";
}

TEST_F(GroupMakersTest, PartlyMountedHierarchyIsResolved) {
  make("a.service/docker", kUser);
  make("a.service", kUser);
  EXPECT_EQ(makers("/../..")({"", "/../../a.service/docker"}), kUser);
  EXPECT_EQ(makers("/above")({"", "/above/a.service/docker"}), kUser);
  EXPECT_EQ(makers("/abo")({"", "/above/a.service/docker"}), std::nullopt);
}

TEST_F(GroupMakersTest, HierarchyIsFoundByItsController) {
  make("a.service/docker", kUser);
  make("a.service", kUser);
  const auto legacy = GroupMakers::parse("33 24 0:28 / " + unified_.path() +
                                         " rw - cgroup cgroup rw,cpu,cpuacct\n");
  EXPECT_EQ(legacy({"cpu,cpuacct", "/a.service/docker"}), kUser);
  EXPECT_EQ(legacy({"cpuset", "/a.service/docker"}), std::nullopt);
  EXPECT_EQ(legacy({"", "/a.service/docker"}), std::nullopt);
}

TEST(GroupMakersText, MalformedLinesAreIgnored) {
  for (const std::string_view text : {"", "\n\n", " - cgroup2", "1 2 3 - cgroup2 x rw",
                                      "31 24 0:26 / /a\\040b rw - cgroup2 cgroup2 rw\n"}) {
    EXPECT_EQ(GroupMakers::parse(text)({"", "/a.service/docker"}), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace gpuyard::processes
