#include "base/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"

namespace gpuyard {
namespace {

// By this link and not by path: after an upgrade in place the path is another version's, or none.
constexpr const char* kThisProgram = "/proc/self/exe";

// What happens to descriptors between fork and exec.
class Actions {
 public:
  Actions() { ::posix_spawn_file_actions_init(&actions_); }
  ~Actions() { ::posix_spawn_file_actions_destroy(&actions_); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;

  void null(int fd, int mode) {
    ::posix_spawn_file_actions_addopen(&actions_, fd, "/dev/null", mode, 0);
  }
  void give(int from, int to) { ::posix_spawn_file_actions_adddup2(&actions_, from, to); }
  void close_from(int fd) { ::posix_spawn_file_actions_addclosefrom_np(&actions_, fd); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

class Attributes {
 public:
  explicit Attributes(bool own_session) {
    ::posix_spawnattr_init(&attributes_);
    sigset_t signals;
    ::sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    ::sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    const int flags =
        POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (own_session ? POSIX_SPAWN_SETSID : 0);
    ::posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
  }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

// Copies above every number the child uses, so that putting one in its place overwrites no other
// and none is in its place already (dup2 onto itself would keep CLOEXEC).
Result<std::vector<UniqueFd>> lifted(const std::vector<int>& given) {
  const int free = kFirstGivenFd + static_cast<int>(given.size());
  std::vector<UniqueFd> copies;
  for (const int fd : given) {
    copies.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, free));
    if (!copies.back()) return system_error("giving a descriptor to a child process");
  }
  return copies;
}

}  // namespace

Result<pid_t> spawn(const SpawnPlan& plan) {
  const auto copies = lifted(plan.given);
  if (!copies) return copies.error();
  Actions actions;
  actions.null(STDIN_FILENO, O_RDONLY);
  actions.null(STDOUT_FILENO, O_WRONLY);
  if (!plan.keeps_stderr || !is_open(STDERR_FILENO)) actions.null(STDERR_FILENO, O_WRONLY);
  int next = kFirstGivenFd;
  for (const UniqueFd& copy : *copies) actions.give(copy.get(), next++);
  actions.close_from(next);

  std::vector<std::string> words = {plan.program.empty() ? program_path() : plan.program};
  words.insert(words.end(), plan.arguments.begin(), plan.arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const Attributes attributes(plan.own_session);
  pid_t child = 0;
  errno = ::posix_spawn(&child, plan.program.empty() ? kThisProgram : plan.program.c_str(),
                        actions.get(), attributes.get(), argv.data(), environ);
  if (errno != 0) return system_error("starting " + words[0]);
  return child;
}

}  // namespace gpuyard
