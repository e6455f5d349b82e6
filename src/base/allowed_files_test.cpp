#include "base/allowed_files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include <gtest/gtest.h>

#include "base/own_process_for_tests.h"
#include "base/scratch_directory_for_tests.h"

namespace gpuyard {
namespace {

constexpr int kNoLandlock = 101;  // exit code

// Returns 0 or errno.
int open_error(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  ::close(fd);
  return 0;
}

class AllowedFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"own/file", "read/file", "other/file"}) scratch_.write(name, "text");
    if (in_restricted([] { return 0; }) == kNoLandlock) GTEST_SKIP() << "no Landlock here";
  }

  std::string own() const { return scratch_.in("own"); }
  std::string read() const { return scratch_.in("read"); }
  std::string other() const { return scratch_.in("other"); }

  // Runs it where own() may be written and read() may be read.
  int in_restricted(const std::function<int()>& run) const {
    return run_in_own_process([&] {
      ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      const auto done =
          allow_only_files({{read(), scratch_.in("missing")}, {own()}, {"/dev/null"}});
      return done ? run() : kNoLandlock;
    });
  }

  ScratchDirectory scratch_;
};

TEST_F(AllowedFilesTest, OwnFilesAreMadeWrittenAndRemoved) {
  EXPECT_EQ(in_restricted([&] { return open_error(own() + "/new", O_WRONLY | O_CREAT); }), 0);
  EXPECT_EQ(in_restricted([&] { return open_error(own() + "/file", O_RDWR | O_TRUNC); }), 0);
  EXPECT_EQ(in_restricted([&] {
              return ::rename((own() + "/file").c_str(), (own() + "/aside").c_str()) != 0 ? errno
                                                                                          : 0;
            }),
            0);
  EXPECT_EQ(in_restricted([&] { return ::unlink((own() + "/aside").c_str()) != 0 ? errno : 0; }),
            0);
}

TEST_F(AllowedFilesTest, ReadableFilesAreReadOnly) {
  EXPECT_EQ(in_restricted([&] { return open_error(read() + "/file", O_RDONLY); }), 0);
  EXPECT_EQ(in_restricted([&] { return open_error(read() + "/file", O_WRONLY); }), EACCES);
  EXPECT_EQ(in_restricted([&] { return open_error(read() + "/new", O_WRONLY | O_CREAT); }), EACCES);
  EXPECT_EQ(in_restricted([&] { return ::unlink((read() + "/file").c_str()) != 0 ? errno : 0; }),
            EACCES);
}

TEST_F(AllowedFilesTest, OtherPathIsDeniedDespiteFilePermissions) {
  EXPECT_EQ(in_restricted([&] { return open_error(other() + "/file", O_RDONLY); }), EACCES);
  EXPECT_EQ(in_restricted([&] { return open_error(other(), O_RDONLY | O_DIRECTORY); }), EACCES);
  EXPECT_EQ(in_restricted([&] {
              const std::string link = own() + "/link";
              return ::symlink((other() + "/file").c_str(), link.c_str()) != 0 ? errno : 0;
            }),
            EACCES);
  EXPECT_EQ(in_restricted([&] { return open_error("/proc/self/environ", O_RDONLY); }), EACCES);
}

TEST_F(AllowedFilesTest, DevicesAreWritten) {
  EXPECT_EQ(in_restricted([] { return open_error("/dev/null", O_RDWR); }), 0);
  EXPECT_EQ(in_restricted([] { return open_error("/dev/zero", O_RDONLY); }), EACCES);
}

TEST_F(AllowedFilesTest, TheEnvironmentOfAnotherProcessIsDenied) {
  constexpr uid_t kNobody = 65534;
  constexpr int kDeniedBefore = 103;
  EXPECT_EQ(run_in_own_process([] {
              if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0)
                return kDiedInTest;
              ::prctl(PR_SET_DUMPABLE, 1);
              const pid_t outside = ::fork();
              if (outside == 0) {
                ::pause();
                ::_exit(0);
              }
              const std::string environment = "/proc/" + std::to_string(outside) + "/environ";
              int result = kDeniedBefore;
              if (open_error(environment, O_RDONLY) == 0) {
                ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                const auto done = allow_only_files({{"/proc"}, {}, {}});
                result = done ? open_error(environment, O_RDONLY) : kNoLandlock;
              }
              ::kill(outside, SIGKILL);
              ::waitpid(outside, nullptr, 0);
              return result;
            }),
            EACCES);
}

}  // namespace
}  // namespace gpuyard
