#include "base/spawn.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "base/capabilities.h"
#include "base/scratch_directory_for_tests.h"
#include "base/unique_fd.h"

namespace gpuyard {
namespace {

using Descriptors = std::map<int, std::string>;  // what each descriptor of a process is open on

Descriptors descriptors_of(const std::string& process) {
  Descriptors found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + process + "/fd")) {
    found[std::stoi(entry.path().filename())] = std::filesystem::read_symlink(entry.path());
  }
  return found;
}

// A child that only sleeps, for a test to inspect.
class Sleeper {
 public:
  explicit Sleeper(SpawnOptions options = {}) {
    options.program = "/bin/sleep";
    options.arguments = {"600"};
    const auto child = spawn(options);
    EXPECT_TRUE(child) << child.error().message;
    if (child) pid_ = *child;
    // Before the child sleeps, the loader opens files of its own.
    for (int i = 0; i < 5000 && status("State:") != "S"; ++i) ::usleep(1'000);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  Descriptors descriptors() const { return descriptors_of(std::to_string(pid_)); }

  // Returns a set of signals or capabilities from /proc/<pid>/status, as bits.
  unsigned long long bits(const std::string& name) const {
    return std::stoull(status(name), nullptr, 16);
  }

 private:
  // Returns the word after `name` in /proc/<pid>/status.
  std::string status(const std::string& name) const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
    std::string word;
    while (file >> word && word != name) {
    }
    file >> word;
    return word;
  }

  pid_t pid_ = 0;
};

unsigned long long own_bits(const std::string& name) {
  std::ifstream file("/proc/thread-self/status");
  std::string word;
  while (file >> word && word != name) {
  }
  file >> word;
  return std::stoull(word, nullptr, 16);
}

SpawnOptions options_with_fds(std::vector<int> given) {
  SpawnOptions options;
  options.passed_fds = std::move(given);
  return options;
}

TEST(Spawn, ChildInheritsOnlyStandardAndGivenDescriptors) {
  const UniqueFd foreign(::open("/dev/zero", O_RDONLY));  // not CLOEXEC, as one we inherited
  const UniqueFd high(::fcntl(foreign.get(), F_DUPFD, 200));
  ASSERT_TRUE(high);
  const UniqueFd given(::open("/dev/full", O_RDONLY | O_CLOEXEC));
  const Sleeper child(options_with_fds({given.get()}));
  EXPECT_EQ(child.descriptors(), (Descriptors{{0, "/dev/null"},
                                              {1, "/dev/null"},
                                              {2, descriptors_of("self").at(2)},
                                              {3, "/dev/full"}}));
}

TEST(Spawn, StderrIsNullWithoutInheritance) {
  SpawnOptions options;
  options.inherit_stderr = false;
  EXPECT_EQ(Sleeper(options).descriptors(),
            (Descriptors{{0, "/dev/null"}, {1, "/dev/null"}, {2, "/dev/null"}}));
}

TEST(Spawn, ConnectionBecomesStdinAndStdoutNotStderr) {
  const UniqueFd zero(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  SpawnOptions options;
  options.connection = zero.get();
  options.errors = full.get();
  EXPECT_EQ(Sleeper(options).descriptors(),
            (Descriptors{{0, "/dev/zero"}, {1, "/dev/zero"}, {2, "/dev/full"}}));
}

TEST(Spawn, GivenDescriptorsAreRenumberedInOrder) {
  // In one of the two orders each descriptor takes the number of the other, whatever they are.
  const UniqueFd zero(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const UniqueFd full(::open("/dev/full", O_RDONLY | O_CLOEXEC));
  for (const bool swapped : {false, true}) {
    const Sleeper child(swapped ? options_with_fds({full.get(), zero.get()})
                                : options_with_fds({zero.get(), full.get()}));
    const auto descriptors = child.descriptors();
    ASSERT_EQ(descriptors.size(), 5U);
    EXPECT_EQ(descriptors.at(3), swapped ? "/dev/full" : "/dev/zero");
    EXPECT_EQ(descriptors.at(4), swapped ? "/dev/zero" : "/dev/full");
  }
}

TEST(Spawn, SignalsAreAsInAFreshProcess) {
  sigset_t blocked;
  sigset_t before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto handler = ::signal(SIGPIPE, SIG_IGN);
  const Sleeper child;
  EXPECT_EQ(child.bits("SigBlk:"), 0U);
  EXPECT_EQ(child.bits("SigIgn:") & (1ULL << (SIGPIPE - 1)), 0U);
  ::signal(SIGPIPE, handler);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(Spawn, OwnSessionOptionMakesChildSessionLeader) {
  SpawnOptions options;
  options.new_session = true;
  const Sleeper leader(options);
  EXPECT_EQ(::getsid(leader.pid()), leader.pid());
  const Sleeper follower;
  EXPECT_EQ(::getsid(follower.pid()), ::getsid(0));
}

// Inheritable and ambient are what children of a process that is not root get from it.
class InheritedCapabilities : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root has capabilities to pass on";
  }
};

TEST_F(InheritedCapabilities, AreEmptyInAChild) {
  const ChildCapabilities ours(capability_bit(CAP_SYS_ADMIN));  // as a service manager gives them
  const Sleeper child;
  EXPECT_EQ(child.bits("CapInh:"), 0U);
  EXPECT_EQ(child.bits("CapAmb:"), 0U);
}

TEST_F(InheritedCapabilities, AreSysAdminAloneForADriver) {
  SpawnOptions options;
  options.capabilities = capability_bit(CAP_SYS_ADMIN);
  const Sleeper child(options);
  EXPECT_EQ(child.bits("CapInh:"), capability_bit(CAP_SYS_ADMIN));
  EXPECT_EQ(child.bits("CapAmb:"), capability_bit(CAP_SYS_ADMIN));
}

TEST_F(InheritedCapabilities, AreOursAgainAfterwards) {
  const ChildCapabilities ours(capability_bit(CAP_SYS_ADMIN));
  {
    const Sleeper child;
  }
  for (const auto& line : {"CapInh:", "CapAmb:"})
    EXPECT_EQ(own_bits(line), capability_bit(CAP_SYS_ADMIN)) << line;
}

TEST(Spawn, MissingProgramErrorNamesPath) {
  SpawnOptions options;
  options.program = "/nowhere/gpuyard";
  const auto child = spawn(options);
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error(),
            (Error{Errc::not_found, "starting /nowhere/gpuyard: No such file or directory"}));
}

// The working directory has programs and is not in PATH.
class ProgramSearch : public testing::Test {
 protected:
  ProgramSearch() {
    std::filesystem::create_directory(directory_.in("bin"));
    for (const char* const name : {"helper", "bin/helper", "bin/only"}) {
      directory_.write(name, "#!/bin/sh\n");
      ::chmod(directory_.in(name).c_str(), 0755);
    }
    directory_.write("bin/text", "");
    std::filesystem::current_path(directory_.in(""));
  }
  ~ProgramSearch() override {
    std::filesystem::current_path(before_);
    ::setenv("PATH", path_.c_str(), 1);
  }
  static void set_path(const std::string& path) { ::setenv("PATH", path.c_str(), 1); }

  const ScratchDirectory directory_;
  const std::filesystem::path before_ = std::filesystem::current_path();
  const std::string path_ = std::getenv("PATH");
};

TEST_F(ProgramSearch, SkipsTheWorkingDirectory) {
  const std::string bin = directory_.in("bin");
  for (const std::string& path : {":" + bin, bin + ":", ".:" + bin, "bin::" + bin, bin}) {
    set_path(path);
    EXPECT_EQ(program_folders(), std::vector{bin}) << path;
    const auto found = find_program("helper");
    ASSERT_TRUE(found) << path;
    EXPECT_EQ(*found, bin + "/helper") << path;
  }
  for (const char* const path : {"", ":", ".", "bin"}) {
    set_path(path);
    EXPECT_FALSE(find_program("helper")) << path;
    EXPECT_TRUE(find_program("sh")) << "the usual directories are searched: " << path;
    EXPECT_FALSE(spawn({.program = "helper", .search_path = true})) << path;
  }
}

// The simulator's link may come first in PATH. A command that resets a GPU must not run it.
TEST_F(ProgramSearch, ALinkToGpuyardIsNotNvidiaSmi) {
  namespace fs = std::filesystem;
  const std::string bin = directory_.in("bin");
  fs::copy_file(directory_.in("helper"), bin + "/gpuyard");
  fs::create_symlink("gpuyard", bin + "/nvidia-smi");
  fs::create_symlink("gpuyard", bin + "/gy");
  set_path(bin);
  EXPECT_EQ(find_program("nvidia-smi").error().code, Errc::not_found);
  EXPECT_EQ(*find_program("gy"), bin + "/gy") << "any other name of the program is good";
  fs::create_directory(directory_.in("driver"));
  fs::copy_file(directory_.in("helper"), directory_.in("driver/nvidia-smi"));
  set_path(bin + ":" + directory_.in("driver"));
  EXPECT_EQ(*find_program("nvidia-smi"), directory_.in("driver/nvidia-smi"));
}

TEST_F(ProgramSearch, IsSkippedForTheRunningProgram) {
  set_path(directory_.in("bin"));
  const auto text = run_with_timeout(
      {.arguments = {"--gtest_filter=None.None"}, .search_path = true}, std::chrono::seconds(20));
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_NE(text->find("Running 0 tests"), std::string::npos);
}

TEST_F(ProgramSearch, ReportsWhyAProgramCannotBeStarted) {
  set_path(directory_.in("bin"));
  EXPECT_EQ(find_program("none").error(),
            (Error{Errc::not_found, "starting none: No such file or directory"}));
  EXPECT_EQ(find_program("text").error(),
            (Error{Errc::denied, "starting text: Permission denied"}));
  EXPECT_EQ(*find_program("./none"), "./none") << "a path is not searched for";
}

TEST(Spawn, ClosedDescriptorIsError) {
  EXPECT_FALSE(spawn(options_with_fds({-1})));
}

}  // namespace
}  // namespace gpuyard
