// The lock files that `sim stop` trusts, and the files and processes that it leaves alone.
#include "sim/world_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "base/proc_stat.h"
#include "base/spawn.h"
#include "sim/world_client_for_tests.h"

namespace gpuyard::sim {
namespace {

// A process that is no world server although lock files name it.
class Victim {
 public:
  Victim() : pid_(*spawn({.program = "/bin/sleep", .arguments = {"600"}})) {}
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;
  ~Victim() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  std::string lock_text() const {
    return std::to_string(pid_) + " " + std::to_string(process_start_time(pid_).value_or(0)) + "\n";
  }
  bool is_alive() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }

 private:
  pid_t pid_;
};

class StopWorld : public WorldClientTest {
 protected:
  StopWorld() { std::filesystem::create_directories(directory()); }

  std::string path(const std::string& name) const { return directory() + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(path(name)); }
};

TEST_F(StopWorld, ProcessNamedInUnheldLockIsSpared) {
  const Victim victim;
  write("lock", victim.lock_text());
  EXPECT_EQ(stop_world(directory()).error().code, Errc::not_found);
  EXPECT_TRUE(victim.is_alive());
}

TEST_F(StopWorld, LockOwnedByAnotherUserIsDenied) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give a file away";
  const Victim victim;
  write("lock", victim.lock_text());
  ASSERT_EQ(::chown(path("lock").c_str(), 65534, 65534), 0);
  const UniqueFd held(::open(path("lock").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  write("state", "GPUYSIM");
  const auto stopped = stop_world(directory());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Errc::denied);
  EXPECT_NE(stopped.error().message.find("another user"), std::string::npos);
  EXPECT_TRUE(victim.is_alive());
  EXPECT_TRUE(exists("state"));
}

TEST_F(StopWorld, SymbolicLinkAsLockIsNotFollowed) {
  const Victim victim;
  write("elsewhere", victim.lock_text());
  std::filesystem::create_symlink("elsewhere", path("lock"));
  EXPECT_FALSE(stop_world(directory()));
  EXPECT_TRUE(victim.is_alive());
}

TEST_F(StopWorld, MissingLockLeavesStateFileInPlace) {
  write("state", std::string("GPUYSIM\0", 8));
  EXPECT_EQ(stop_world(directory()).error().code, Errc::not_found);
  EXPECT_TRUE(exists("state"));
}

TEST_F(StopWorld, ForeignFilesWithWorldNamesAreKept) {
  write("lock", "");
  write("state", "my thesis, all of it");
  write("keeper.sock", "no socket");
  EXPECT_EQ(stop_world(directory()).error().code, Errc::not_found);
  EXPECT_TRUE(exists("state"));
  EXPECT_TRUE(exists("keeper.sock"));
}

TEST_F(StopWorld, FilesOfKilledServerAreDeleted) {
  const auto world = start();
  ASSERT_TRUE(world) << world.error().message;
  ::kill(world->server_pid(), SIGKILL);
  EXPECT_TRUE(happens_within(std::chrono::seconds(1), [&] {
    return stop_world(directory()).error().code == Errc::not_found;
  }));
  EXPECT_FALSE(exists("state"));
  EXPECT_FALSE(exists("keeper.sock"));
}

TEST_F(StopWorld, DirectoryOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give a directory away";
  ASSERT_EQ(::chown(directory().c_str(), 65534, 65534), 0);
  const auto world = start();
  ASSERT_FALSE(world);
  EXPECT_EQ(world.error().code, Errc::denied);
  EXPECT_NE(world.error().message.find("belongs to another user"), std::string::npos);
}

TEST_F(StopWorld, DirectoryWritableByOthersIsRefused) {
  ASSERT_EQ(::chmod(directory().c_str(), 0777), 0);
  EXPECT_EQ(start().error().code, Errc::denied);
}

}  // namespace
}  // namespace gpuyard::sim
