// Starting the driver-host: posix_spawn of our own program with one socket and nothing else.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/files.h"
#include "driver/host.h"
#include "driver/host_client.h"

namespace gpuyard::driver {
namespace {

class SpawnActions {
 public:
  SpawnActions() { ::posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  void give(int from, int to) { ::posix_spawn_file_actions_adddup2(&actions_, from, to); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

class SpawnAttributes {
 public:
  // Signals start out as in a fresh process, whatever the daemon blocks or ignores.
  SpawnAttributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;

  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

}  // namespace

Result<HostProcess> spawn_host(const std::vector<std::string>& arguments) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return system_error("making the driver-host's socket");
  }
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  // dup2 onto the same number would keep CLOEXEC, so the child's end never sits there itself.
  if (theirs.get() == kHostSocket) theirs.reset(::fcntl(theirs.get(), F_DUPFD_CLOEXEC, 10));

  const std::string program = program_path();
  std::vector<std::string> words = {program, "driver-host"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  SpawnActions actions;
  actions.give(theirs.get(), kHostSocket);
  const SpawnAttributes attributes;
  HostProcess process;
  const int failed = ::posix_spawn(&process.pid, program.c_str(), actions.get(), attributes.get(),
                                   argv.data(), environ);
  if (failed != 0) {
    errno = failed;
    return system_error("starting the driver-host");
  }
  process.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  process.socket = std::move(ours);
  return process;
}

}  // namespace gpuyard::driver
