#include "daemon/serve.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"
#include "core/lease/lease_manager.h"

namespace gpuyard::daemon {
namespace {

class StateDirectory : public ::testing::Test {
 protected:
  const ScratchDirectory directory_;
};

TEST_F(StateDirectory, IsCreatedWithItsParents) {
  EXPECT_TRUE(lock_state(directory_.in("a/b")).ok());
  EXPECT_TRUE(std::filesystem::is_directory(directory_.in("a/b")));
}

TEST_F(StateDirectory, SecondDaemonConflictsNamingHolderPid) {
  const auto first = lock_state(directory_.path());
  ASSERT_TRUE(first.ok());
  const auto second = lock_state(directory_.path());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Errc::conflict);
  EXPECT_NE(second.error().message.find("PID " + std::to_string(::getpid())), std::string::npos);
}

TEST_F(StateDirectory, LockIsReleasedWithDescriptor) {
  {
    const auto first = lock_state(directory_.path());
  }
  EXPECT_TRUE(lock_state(directory_.path()).ok());
}

// The fallback in /tmp of a user who does not exist.
class FallbackDirectory : public ::testing::Test {
 protected:
  FallbackDirectory() { environment_.uid = 4'000'000'000U - static_cast<unsigned>(::getpid()); }
  ~FallbackDirectory() override { std::filesystem::remove_all(path()); }

  std::string path() const { return fallback_directory(environment_); }

  Environment environment_;
};

unsigned mode_of(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777U : 0;
}

TEST_F(FallbackDirectory, IsMadeForItsUserAlone) {
  ASSERT_TRUE(make_daemon_directory(path(), 0755, environment_).ok());
  EXPECT_EQ(mode_of(path()), 0700U);
  ASSERT_TRUE(make_daemon_directory(path() + "/state", 0700, environment_).ok());
  EXPECT_EQ(mode_of(path() + "/state"), 0700U);
}

TEST_F(FallbackDirectory, SymlinkedPathIsDeniedWithAdvice) {
  std::filesystem::create_directory_symlink("/tmp", path());
  const auto made = make_daemon_directory(path() + "/state", 0700, environment_);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Errc::denied);
  for (const char* advice : {"XDG_RUNTIME_DIR", "--socket", "--state"}) {
    EXPECT_NE(made.error().message.find(advice), std::string::npos) << made.error().message;
  }
}

TEST_F(StateDirectory, StrictUmaskKeepsSocketDirectoryAccessible) {
  const mode_t before = ::umask(077);
  const auto made = make_daemon_directory(directory_.in("run"), 0755, Environment{});
  ::umask(before);
  EXPECT_TRUE(made.ok());
  EXPECT_EQ(mode_of(directory_.in("run")), 0755U);
}

TEST_F(StateDirectory, FileInsteadOfDirectoryIsError) {
  EXPECT_FALSE(lock_state("/dev/null").ok());
}

}  // namespace
}  // namespace gpuyard::daemon
