#include "cli/read/foreground_command.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/files.h"
#include "cli/exit_codes.h"
#include "cli/screen/terminal.h"

namespace gpuyard::cli {
namespace {

sigset_t ours() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    ::sigaddset(&set, number);
  }
  return set;
}

// 0, or the errno.
int start(const std::vector<std::string>& words, const sigset_t& mask, pid_t& child) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int failed = ::posix_spawnp(&child, argv[0], nullptr, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  return failed;
}

std::optional<int> exit_code_of_ended(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, WNOHANG) != child) return std::nullopt;
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

ForegroundCommand::ForegroundCommand() {
  // Inherited as "ignored", it would take the command's end from us.
  ::signal(SIGCHLD, SIG_DFL);
  const sigset_t set = ours();
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
}

ForegroundCommand::~ForegroundCommand() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int ForegroundCommand::run(const std::vector<std::string>& words) const {
  pid_t child = 0;
  if (const int failed = start(words, before_, child); failed != 0) {
    errno = failed;
    static_cast<void>(complain(system_error("running " + words[0])));
    return failed == ENOENT ? kNoSuchCommand : kCannotRun;
  }
  const sigset_t set = ours();
  for (;;) {
    if (const auto code = exit_code_of_ended(child)) return *code;
    siginfo_t told{};
    const int number = ::sigwaitinfo(&set, &told);
    // What a terminal sends, it sends to the command as well.
    const bool from_somebody = told.si_code <= 0;
    if (number > 0 && number != SIGCHLD && from_somebody) ::kill(child, number);
  }
}

}  // namespace gpuyard::cli
