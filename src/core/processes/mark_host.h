// `gpuyard marks`: the process that alone may read other users' environments. It reads records of a
// fixed size, compares, and replies with numbers, or with a file of a list that root wrote. It
// parses nothing else, writes no file, and has one connection, which it was started with.
#pragma once

#include <string>
#include <vector>

#include "base/spawn.h"
#include "base/unique_fd.h"

namespace gpuyard::processes {

// The descriptor on which a child of the daemon, and a unit of systemd, has its connection.
inline constexpr int kMarkSocketFd = kFirstPassedFd;

struct MarkRoots {
  std::string ours;     // the /proc of this PID namespace
  std::string drivers;  // the /proc with the driver's numbers
};

// Serves requests until the other end closes, or sends something that is no request. A file of
// `files` is passed if root alone can put another in its place: a file in a folder of the
// daemon's could be a link to any file.
void serve_marks(UniqueFd socket, const MarkRoots&, const std::vector<std::string>& files = {});

// Drops every capability and every system call that reading environments does not take. Logs what
// this kernel or container does not support, and goes on.
//
// There is no Landlock: to a process under it the kernel shows the environment of no process
// outside its domain, whatever capabilities it has (security/landlock, hook_ptrace_access_check).
//
// `reads_kernel_log`: /dev/kmsg may be among the files, for which the kernel asks for CAP_SYSLOG.
void confine_marks(bool reads_kernel_log);

}  // namespace gpuyard::processes
