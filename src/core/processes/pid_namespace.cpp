#include "processes/pid_namespace.h"

#include <unistd.h>

#include <array>

#include "processes/process_reader.h"

namespace gpuyard::processes {

// The kernel gives the first one this inode number since there are such links (Linux 3.8).
bool is_first_pid_namespace(std::string_view link) {
  return link == "pid:[4026531836]";
}

Result<void> check_pid_namespace(const std::string& proc_root) {
  if (proc_root != kProcRoot) return {};
  std::array<char, 64> link{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", link.data(), link.size());
  if (length > 0 && is_first_pid_namespace({link.data(), static_cast<std::size_t>(length)})) {
    return {};
  }
  return Error{Errc::unsupported,
               "inside a container its number may be another process's here; mount the host's "
               "/proc and name it with processes.proc_root"};
}

}  // namespace gpuyard::processes
