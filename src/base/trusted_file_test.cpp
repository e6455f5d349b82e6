#include "base/trusted_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard {
namespace {

constexpr uid_t kStranger = 65534;

class TrustedFile : public testing::Test {
 protected:
  TrustedFile() {
    std::filesystem::create_directory(place_);
    directory_.write("etc/x.toml", "");
    ::chmod(place_.c_str(), 0755);
    ::chmod(file_.c_str(), 0644);
  }
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root trusts nobody else";
  }
  static std::string fault(const std::string& path) {
    const auto trusted = check_trusted_by_root(path);
    if (trusted) return "";
    EXPECT_EQ(trusted.error().code, Errc::invalid);
    return trusted.error().message;
  }

  const ScratchDirectory directory_;
  const std::string place_ = directory_.in("etc");
  const std::string file_ = place_ + "/x.toml";
};

TEST_F(TrustedFile, IsRootsAndNobodyElseMayWriteToIt) {
  EXPECT_EQ(fault(file_), "");
  EXPECT_EQ(fault(directory_.in("etc/../etc/./x.toml")), "");
  EXPECT_EQ(fault(directory_.in("etc/none.toml")), "");
  ::chmod(file_.c_str(), 0666);
  EXPECT_EQ(fault(file_), file_ + ": it says what root runs, and others may write to " + file_ +
                              ", which is root's (mode 0666); `chmod go-w " + file_ +
                              "` ends that");
  ::chmod(file_.c_str(), 0664);
  EXPECT_EQ(fault(file_), "") << "in root's own group is nobody";
  ASSERT_EQ(::chown(file_.c_str(), 0, kStranger), 0);
  EXPECT_NE(fault(file_), "");
  ASSERT_EQ(::chown(file_.c_str(), kStranger, 0), 0);
  EXPECT_NE(fault(file_).find("belongs to uid 65534 (mode 0664); `chown root:root"),
            std::string::npos);
}

TEST_F(TrustedFile, LiesInDirectoriesThatNobodyElseMayChange) {
  ::chmod(place_.c_str(), 0777);
  EXPECT_NE(fault(file_).find("others may write to " + place_ + ","), std::string::npos);
  ::chmod(place_.c_str(), 01777);
  EXPECT_EQ(fault(file_), "") << "nobody can take it away, as in /tmp";
  ASSERT_EQ(::chown(place_.c_str(), kStranger, 0), 0);
  EXPECT_NE(fault(file_), "") << "its owner can";
}

TEST_F(TrustedFile, EveryLinkOnTheWayIsFollowed) {
  const std::string theirs = directory_.in("home");
  std::filesystem::create_directory(theirs);
  std::filesystem::create_symlink(file_, theirs + "/link");
  std::filesystem::create_symlink("../home/link", place_ + "/link");
  EXPECT_EQ(fault(place_ + "/link"), "");
  ASSERT_EQ(::chown(theirs.c_str(), kStranger, 0), 0);
  EXPECT_NE(fault(place_ + "/link").find(theirs + " belongs"), std::string::npos)
      << "a link in between is a stranger's to change";
  std::filesystem::create_symlink("circle", place_ + "/circle");
  EXPECT_EQ(fault(place_ + "/circle"), "") << "whoever reads it says why";
}

}  // namespace
}  // namespace gpuyard
