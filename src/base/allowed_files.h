// Denies this process, by Landlock, every file that it never needs, whatever its permissions are.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace gpuyard {

// Paths of files and directories; a directory stands for all that is in it. One that does not exist
// is left out.
struct AllowedFiles {
  std::vector<std::string> readable;
  // Directories in which files and sockets may be created, written and removed, and read.
  std::vector<std::string> writable;
  // Devices: readable, writable and controlled with ioctl.
  std::vector<std::string> devices;
};

// Denies all other files, for good, to this thread, the threads and the children that it starts.
// Programs may still be executed. What is open stays open. The kernel then also denies the parts of
// /proc that only a tracer of a process may read (its environment, memory and descriptors), for
// every process outside of this one's domain. The kernel asks for CAP_SYS_ADMIN or no_new_privs.
// Errc::unavailable: this kernel or container has no Landlock.
Result<void> allow_only_files(const AllowedFiles&);

}  // namespace gpuyard
