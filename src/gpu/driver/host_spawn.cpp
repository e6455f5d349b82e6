// Starting the driver-host: our own program with one socket and nothing else.
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "base/files.h"
#include "base/spawn.h"
#include "driver/host.h"
#include "driver/host_client.h"

namespace gpuyard::driver {

Result<HostProcess> spawn_host(const std::vector<std::string>& arguments) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return system_error("making the driver-host's socket");
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  static_assert(kHostSocket == kFirstGivenFd);
  SpawnPlan plan{.arguments = {"driver-host"}, .given = {theirs.get()}};  // stderr is its log
  plan.arguments.insert(plan.arguments.end(), arguments.begin(), arguments.end());
  const auto child = spawn(plan);
  if (!child) return Error(child.error()).in("the driver-host");

  // By system call: glibc has the wrapper from 2.36 only.
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, *child, 0)));
  if (!pidfd) {
    auto error = system_error("watching the driver-host");
    ::kill(*child, SIGKILL);
    ::waitpid(*child, nullptr, 0);  // it has loaded no driver yet, so it ends at once
    return error;
  }
  return HostProcess{*child, std::move(pidfd), std::move(ours)};
}

}  // namespace gpuyard::driver
