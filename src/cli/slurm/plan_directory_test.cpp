#include "cli/slurm/plan_directory.h"

#include <sys/stat.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/scratch_directory_for_tests.h"

namespace gpuyard::cli::slurm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using State = PlacedFile::State;

class PlanDirectory : public ::testing::Test {
 protected:
  std::vector<PlacedFile> placed(const std::vector<ClusterFile>& files) {
    const auto done = place_files(directory_, files);
    EXPECT_TRUE(done) << done.error().text();
    return done ? *done : std::vector<PlacedFile>();
  }
  std::string text_of(const std::string& name) const {
    const auto text = read_file(directory_ + "/" + name, 1000);
    return text ? *text : text.error().text();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& one : std::filesystem::directory_iterator(directory_)) {
      found.push_back(one.path().filename());
    }
    return found;
  }
  unsigned mode_of(const std::string& path) const {
    struct stat found{};
    EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
    return found.st_mode & 07777;
  }

  ScratchDirectory scratch_;
  const std::string directory_ = scratch_.in("plan");
};

TEST_F(PlanDirectory, FilesAreWrittenForTheOwnerAlone) {
  placed({{"slurm.conf", "a\n"}, {"munge.key", "key", 0400, true}});
  EXPECT_EQ(mode_of(directory_), 0700U);
  EXPECT_EQ(mode_of(directory_ + "/munge.key"), 0400U);
  EXPECT_EQ(text_of("slurm.conf"), "a\n");
  EXPECT_THAT(names(), UnorderedElementsAre("slurm.conf", "munge.key"));
}

TEST_F(PlanDirectory, ExistingFileIsKeptAndDifferenceReported) {
  placed({{"slurm.conf", "a\nb\n"}, {"gres.conf", "x\n"}});
  const auto again = placed({{"slurm.conf", "b\nc\n"}, {"gres.conf", "x\n"}});
  EXPECT_EQ(text_of("slurm.conf"), "a\nb\n");
  EXPECT_EQ(text_of("slurm.conf.new"), "b\nc\n");
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].name, "slurm.conf.new");
  EXPECT_EQ(again[0].state, State::beside);
  EXPECT_THAT(again[0].difference, ElementsAre("- a", "+ c"));
  EXPECT_EQ(again[1].state, State::unchanged);
  placed({{"slurm.conf", "d\n"}});
  EXPECT_EQ(text_of("slurm.conf.new"), "d\n");
}

// Another key would part the machines that have the old one.
TEST_F(PlanDirectory, ExistingKeyIsKept) {
  placed({{"munge.key", "old", 0400, true}});
  EXPECT_EQ(placed({{"munge.key", "new", 0400, true}}).front().state, State::unchanged);
  EXPECT_EQ(text_of("munge.key"), "old");
}

TEST_F(PlanDirectory, DifferenceOfPrivateFileIsNotPrinted) {
  placed({{"slurmdbd.conf", "StoragePass=x\n", 0600}});
  EXPECT_THAT(placed({{"slurmdbd.conf", "b\n", 0600}}).front().difference, IsEmpty());
}

TEST_F(PlanDirectory, FailureLeavesNoNewFile) {
  placed({{"gres.conf", "x\n"}});
  scratch_.write("plan/gres.conf.new/a", "a directory in the way");
  const auto done = place_files(directory_, {{"slurm.conf", "a\n"}, {"gres.conf", "y\n"}});
  EXPECT_FALSE(done);
  EXPECT_THAT(names(), UnorderedElementsAre("gres.conf", "gres.conf.new"));
}

TEST_F(PlanDirectory, FailureLeavesNoNewDirectory) {
  const auto done = place_files(directory_, {{"slurm.conf", "a\n"}, {"no/such", "y\n"}});
  EXPECT_FALSE(done);
  EXPECT_FALSE(std::filesystem::exists(directory_));
}

TEST_F(PlanDirectory, DirectoryThatOthersCanChangeIsRefused) {
  std::filesystem::create_directory(directory_);
  ::chmod(directory_.c_str(), 0777);
  const auto done = place_files(directory_, {{"slurm.conf", "a\n"}});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::denied);
  EXPECT_THAT(names(), IsEmpty());
}

}  // namespace
}  // namespace gpuyard::cli::slurm
