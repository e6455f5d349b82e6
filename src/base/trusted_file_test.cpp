#include "base/trusted_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

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
    return trusted.error().text();
  }

  const ScratchDirectory directory_;
  const std::string place_ = directory_.in("etc");
  const std::string file_ = place_ + "/x.toml";
};

TEST_F(TrustedFile, NonRootOwnerOrWriterIsRejected) {
  EXPECT_EQ(fault(file_), "");
  EXPECT_EQ(fault(directory_.in("etc/../etc/./x.toml")), "");
  EXPECT_EQ(fault(directory_.in("etc/none.toml")), "");
  ::chmod(file_.c_str(), 0666);
  EXPECT_EQ(fault(file_), file_ + ": it controls what root runs, but other users can write to " +
                              file_ + ", which belongs to root (mode 0666); try `chmod go-w " +
                              file_ + "`");
  ::chmod(file_.c_str(), 0664);
  EXPECT_EQ(fault(file_), "") << "in root's own group is nobody";
  ASSERT_EQ(::chown(file_.c_str(), 0, kStranger), 0);
  EXPECT_NE(fault(file_), "");
  ASSERT_EQ(::chown(file_.c_str(), kStranger, 0), 0);
  EXPECT_NE(fault(file_).find("belongs to UID 65534 (mode 0664); try `chown root:root"),
            std::string::npos);
}

TEST_F(TrustedFile, DirectoryWritableByNonRootIsRejected) {
  ::chmod(place_.c_str(), 0777);
  EXPECT_NE(fault(file_).find("other users can write to " + place_ + ","), std::string::npos);
  ::chmod(place_.c_str(), 01777);
  EXPECT_EQ(fault(file_), "") << "nobody can take it away, as in /tmp";
  ASSERT_EQ(::chown(place_.c_str(), kStranger, 0), 0);
  EXPECT_NE(fault(file_), "") << "its owner can";
}

TEST_F(TrustedFile, CommandIsSuggestedForRegularFilesOnly) {
  const std::string pipe = place_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(fault(pipe), "");
  ::chmod(pipe.c_str(), 0666);
  EXPECT_EQ(fault(pipe), pipe + ": it controls what root runs, but other users can write to " +
                             pipe +
                             ", which belongs to root (a pipe, mode 0666); keep it in a "
                             "directory that only root can write to");
  ::chmod(place_.c_str(), 0777);
  for (const char* const command : {"chmod", "chown"}) {
    EXPECT_EQ(fault(file_).find(command), std::string::npos) << fault(file_);
  }
  EXPECT_NE(fault(file_).find("a directory, mode 0777"), std::string::npos);
}

TEST_F(TrustedFile, MayBelongToOtherOwnersIfNamed) {
  const auto ours = [&] { return check_trusted_by({0, kStranger}, file_, "it has tokens"); };
  ASSERT_EQ(::chown(file_.c_str(), kStranger, kStranger), 0);
  ASSERT_EQ(::chown(place_.c_str(), kStranger, kStranger), 0);
  EXPECT_TRUE(ours());
  EXPECT_NE(fault(file_), "") << "root's alone";
  ::chmod(place_.c_str(), 0775);
  EXPECT_NE(ours().error().message.find("other users can write to " + place_ +
                                        ", which belongs to UID 65534"),
            std::string::npos);
  ::chmod(place_.c_str(), 0755);
  ASSERT_EQ(::chown(file_.c_str(), kStranger - 1, 0), 0);
  EXPECT_NE(ours().error().message.find("belongs to UID 65533"), std::string::npos);
}

TEST_F(TrustedFile, NullDeviceIsAnEmptyFile) {
  EXPECT_EQ(fault("/dev/null"), "");
  EXPECT_NE(fault("/dev/zero").find("(a device, mode 0666)"), std::string::npos);
  EXPECT_EQ(fault("/dev/zero").find("chmod"), std::string::npos);
}

TEST_F(TrustedFile, CallerMayChooseReasonAndAdvice) {
  ::chmod(file_.c_str(), 0666);
  const auto trusted = check_trusted_by_root(file_, "root runs it", "install the package");
  ASSERT_FALSE(trusted);
  EXPECT_EQ(trusted.error().message,
            file_ + ": root runs it, but other users can write to " + file_ +
                ", which belongs to root (mode 0666); install the package");
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
