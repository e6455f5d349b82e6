// Runs a part of a test in a process of its own, because a process cannot undo the restrictions
// that it puts on itself.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace gpuyard {

constexpr int kDiedInTest = 102;  // exit code

// Returns the exit code.
inline int run_in_own_process(const std::function<int()>& run) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kDiedInTest;
}

}  // namespace gpuyard
