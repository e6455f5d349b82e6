#include "base/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard {
namespace {

class Files : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.in(name); }
  std::string written(const std::string& name, const std::string& text) const {
    return directory_.write(name, text);
  }

  const ScratchDirectory directory_;
};

TEST_F(Files, ReadsEveryByte) {
  const std::string text = std::string(10'000, 'x') + std::string("\0\r\n\xFF", 4);
  const auto read = read_file(written("a", text), 1 << 20);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, text);
}

TEST_F(Files, AFileOfExactlyTheLimitIsRead) {
  EXPECT_TRUE(read_file(written("a", "12345678"), 8));
}

TEST_F(Files, AFileOverTheLimitIsInvalid) {
  const auto read = read_file(written("a", "123456789"), 8);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error(), (Error{Errc::invalid, path("a") + " is larger than 8 bytes"}));
}

TEST_F(Files, AnEndlessFileIsRefusedRatherThanHeld) {
  EXPECT_EQ(read_file("/dev/zero", 100'000).error().code, Errc::invalid);
}

TEST_F(Files, MissingFileIsNotFoundWithErrnoText) {
  const auto read = read_file(path("none"), 8);
  EXPECT_EQ(read.error(),
            (Error{Errc::not_found, "opening " + path("none") + ": No such file or directory"}));
}

TEST_F(Files, ADirectoryIsNoFile) {
  EXPECT_FALSE(read_file(directory_.path(), 8));
}

TEST_F(Files, ErrnoMapsToErrorCode) {
  const auto code_of = [](int number) {
    errno = number;
    return system_error("x").code;
  };
  EXPECT_EQ(code_of(EACCES), Errc::denied);
  EXPECT_EQ(code_of(EPERM), Errc::denied);
  EXPECT_EQ(code_of(EADDRINUSE), Errc::conflict);
  EXPECT_EQ(code_of(EIO), Errc::internal);
}

TEST_F(Files, MakesADirectoryWithItsParents) {
  ASSERT_TRUE(make_directories(path("a/b//c/"), 0700));
  struct stat info{};
  ASSERT_EQ(::stat(path("a/b/c").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700U);
}

TEST_F(Files, MakingADirectoryThatIsThereIsFine) {
  EXPECT_TRUE(make_directories(directory_.path()));
  EXPECT_TRUE(make_directories("/"));
}

TEST_F(Files, FileInPlaceOfDirectoryIsConflict) {
  EXPECT_EQ(make_directories(written("a", "")).error().code, Errc::conflict);
  EXPECT_FALSE(make_directories(path("a/b")));
  EXPECT_FALSE(make_directories(""));
}

// The umask belongs to the whole process, so a test restores it.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  mode_t before_;
};

unsigned mode_of(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777U : 0;
}

TEST_F(Files, DirectoryModeIgnoresUmask) {
  const Umask strict(077);
  ASSERT_TRUE(make_directories(path("a/b"), 0755));
  EXPECT_EQ(mode_of(path("a")), 0755U);
  EXPECT_EQ(mode_of(path("a/b")), 0755U);
  ASSERT_TRUE(make_private_directory(path("c"), 0755));
  EXPECT_EQ(mode_of(path("c")), 0755U);
}

TEST_F(Files, ADirectoryThatWasThereKeepsItsMode) {
  ASSERT_EQ(::mkdir(path("a").c_str(), 0710), 0);
  ASSERT_TRUE(make_directories(path("a"), 0755));
  ASSERT_TRUE(make_private_directory(path("a")));
  EXPECT_EQ(mode_of(path("a")), 0710U);
}

TEST_F(Files, APrivateDirectoryIsForItsUserAlone) {
  ASSERT_TRUE(make_private_directory(path("a/")));
  EXPECT_EQ(mode_of(path("a")), 0700U);
  EXPECT_TRUE(make_private_directory(path("a")));
}

TEST_F(Files, APrivateDirectoryNeedsItsParent) {
  EXPECT_EQ(make_private_directory(path("a/b")).error().code, Errc::not_found);
}

TEST_F(Files, DirectoryWritableByOthersIsNotPrivate) {
  for (const mode_t mode : {0770U, 0702U}) {
    ASSERT_TRUE(make_directories(path("a"), mode));
    EXPECT_EQ(make_private_directory(path("a")).error(),
              (Error{Errc::denied, path("a") + " is writable by other users"}));
    std::filesystem::remove(path("a"));
  }
}

TEST_F(Files, AnothersDirectoryIsNotPrivate) {
  // For a user, a directory of root's; for root, one that root gave away.
  const std::string others = ::geteuid() == 0 ? path("a") : "/usr";
  if (::geteuid() == 0) {
    ASSERT_TRUE(make_private_directory(others));
    ASSERT_EQ(::chown(others.c_str(), 65534, 65534), 0);
  }
  EXPECT_EQ(make_private_directory(others).error(),
            (Error{Errc::denied, others + " belongs to another user"}));
}

TEST_F(Files, LinkToDirectoryIsNotPrivate) {
  ASSERT_TRUE(make_private_directory(path("a")));
  std::filesystem::create_symlink("a", path("link"));
  EXPECT_EQ(make_private_directory(path("link")).error().code, Errc::denied);
  EXPECT_EQ(check_private_directory(path("link/")).error().code, Errc::denied);
}

TEST_F(Files, ParentsOfPaths) {
  EXPECT_EQ(parent_directory("/a/b"), "/a");
  EXPECT_EQ(parent_directory("/a"), "/");
  EXPECT_EQ(parent_directory("/"), "/");
  EXPECT_EQ(parent_directory("a"), ".");
  EXPECT_EQ(parent_directory("a/b"), "a");
  EXPECT_EQ(parent_directory(""), ".");
}

TEST_F(Files, ALockIsNeverTakenThroughALink) {
  ASSERT_FALSE(written("thesis", "x").empty());
  std::filesystem::create_symlink("thesis", path("lock"));
  EXPECT_FALSE(lock_file(path("lock")));
  std::filesystem::create_symlink("nowhere", path("dangling"));
  EXPECT_FALSE(lock_file(path("dangling")));
  EXPECT_FALSE(std::filesystem::exists(path("nowhere")));
}

TEST_F(Files, AnotherUserCannotHoldALock) {
  ASSERT_TRUE(lock_file(path("lock")));
  EXPECT_EQ(mode_of(path("lock")), 0600U);  // a user who cannot open it cannot flock it
}

TEST_F(Files, ALockHasOneHolder) {
  const auto first = lock_file(path("lock"));
  ASSERT_TRUE(first);
  const auto second = lock_file(path("lock"));
  EXPECT_EQ(second.error(),
            (Error{Errc::conflict, path("lock") + " is locked by another process"}));
}

TEST_F(Files, ALockEndsWithItsDescriptor) {
  {
    ASSERT_TRUE(lock_file(path("lock")));
  }
  EXPECT_TRUE(lock_file(path("lock")));
}

TEST_F(Files, LockPreservesContents) {
  const auto lock = lock_file(written("lock", "1234"));
  ASSERT_TRUE(lock);
  EXPECT_EQ(*read_file(path("lock"), 8), "1234");
}

TEST_F(Files, TheProgramKnowsWhereItLies) {
  EXPECT_TRUE(std::filesystem::is_regular_file(program_path()));
}

}  // namespace
}  // namespace gpuyard
