#include "sim/pci_tree.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/scratch_directory_for_tests.h"
#include "sim/gpu_commands.h"
#include "sim/pci_address.h"
#include "sim/physics.h"
#include "sim/world_lock.h"

namespace gpuyard::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class PciTreeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_ = make_world(*parse_fleet("h100:4", std::nullopt), *parse_workload("idle"), 30, "");
    auto tree = PciTree::create(directory_.path(), world_, seconds(2));
    ASSERT_TRUE(tree) << tree.error().text();
    tree_ = *std::move(tree);
    tree_->update(world_, now_);  // takes the time of the files that it has made
  }
  std::string slot(std::size_t place) const {
    return sysfs_pci_address(world_.gpus[place].identity).data();
  }
  std::string status(const std::string& address) const {
    const auto text = read_file(folder(address) + "/power/runtime_status", 64);
    return text ? *text : text.error().text();
  }
  std::string folder(const std::string& address) const { return directory_.in("pci/" + address); }
  void pass(Duration time) {
    now_ += time;
    tree_->update(world_, now_);
  }

  const ScratchDirectory directory_;
  World world_;
  std::unique_ptr<PciTree> tree_;
  TimePoint now_ = BootClock::now();
};

TEST_F(PciTreeTest, DirectoriesAreNamedAsInSysfs) {
  EXPECT_EQ(slot(3), "0000:1a:00.0");
  EXPECT_EQ(status("0000:1a:00.0"), "active\n");
}

TEST_F(PciTreeTest, UnusedGpuIsSuspendedAfterTheDelay) {
  pass(milliseconds(1900));
  EXPECT_EQ(status(slot(0)), "active\n");
  pass(milliseconds(200));
  EXPECT_EQ(status(slot(0)), "suspended\n");
}

TEST_F(PciTreeTest, CallForAGpuWakesItAlone) {
  pass(seconds(3));
  ASSERT_TRUE(replace_file(folder(slot(0)) + "/last_use", "", 0666));
  pass(milliseconds(100));
  EXPECT_EQ(status(slot(0)), "active\n");
  EXPECT_EQ(status(slot(1)), "suspended\n");
  pass(seconds(3));
  EXPECT_EQ(status(slot(0)), "suspended\n");
}

TEST_F(PciTreeTest, GpuWithWorkIsNeverSuspended) {
  pass(seconds(3));
  world_.gpus[1].demand.load = 0.5;
  pass(milliseconds(100));
  EXPECT_EQ(status(slot(1)), "active\n");
  pass(seconds(60));
  EXPECT_EQ(status(slot(1)), "active\n");
}

TEST_F(PciTreeTest, FilesAreRemovedAtTheEnd) {
  tree_.reset();
  EXPECT_FALSE(std::filesystem::exists(directory_.in("pci")));
}

// A killed world server leaves its files, which would show its last states for ever.
TEST_F(PciTreeTest, OnlyFilesOfTheTreeAreRemoved) {
  const std::string own = directory_.write("pci/notes/plan.txt", "mine");
  remove_leftovers(directory_.path());
  EXPECT_FALSE(std::filesystem::exists(folder(slot(0))));
  EXPECT_TRUE(std::filesystem::exists(own));
}

}  // namespace
}  // namespace gpuyard::sim
