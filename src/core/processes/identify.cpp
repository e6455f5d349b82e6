#include "core/processes/identify.h"

#include <linux/capability.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/capabilities.h"
#include "base/files.h"
#include "base/try.h"
#include "core/processes/proc_files.h"
#include "core/processes/process_table.h"

namespace gpuyard::processes {
namespace {

Error process_not_found_error(std::uint32_t pid) {
  return {Errc::not_found, fmt::format("process {} not found", pid)};
}

// Called by number: glibc 2.36 declares these calls without extern "C".
int pidfd_open(std::uint32_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
}

bool pidfd_send_signal(const UniqueFd& handle, int number) {
  return ::syscall(SYS_pidfd_send_signal, handle.get(), number, nullptr, 0) == 0;
}

// EINVAL means a thread that is not its process's first, or a number that no process can have.
Result<UniqueFd> open_handle(std::uint32_t pid) {
  UniqueFd handle(pidfd_open(pid));
  if (handle) return handle;
  switch (errno) {
    case ESRCH:
    case EINVAL:
    case ENOENT:
      return process_not_found_error(pid);
    case ENOSYS:
      return Error{
          Errc::unsupported,
          "this kernel cannot identify processes reliably: Linux 5.3 or newer is required"};
    default:
      return system_error(fmt::format("opening process {}", pid));
  }
}

bool has_ended(const UniqueFd& handle) {
  pollfd poll{handle.get(), POLLIN, 0};
  return ::poll(&poll, 1, 0) != 0;
}

}  // namespace

// Reads between opening the handle and seeing that the process still lives: its number could not be
// reused meanwhile.
Result<IdentifiedProcess> identify_process(std::uint32_t pid,
                                           const HiddenProcessViewer& view_hidden) {
  auto handle = GPUYARD_TRY(open_handle(pid));
  const std::string root(kProcRoot);
  auto view = view_process(root, pid);
  if (!view && view_hidden && hides_processes(root)) view = view_hidden(pid);
  if (!view) return view.error();
  if (has_ended(handle)) return process_not_found_error(pid);
  return IdentifiedProcess{view->process, view->uids.effective, view->parent,
                           std::move(view->command), std::move(handle)};
}

Result<void> send_signal(const ProcessKey& process, int number,
                         const std::function<bool(std::uint32_t uid)>& is_allowed_uid) {
  const auto handle = GPUYARD_TRY(open_handle(process.pid));
  const auto directory = open_process(std::string(kProcRoot), process.pid);
  if (!directory && directory.error().code == Errc::not_found && !has_ended(handle)) {
    return Error{Errc::denied, fmt::format("/proc hides process {}", process.pid)};
  }
  if (!directory) return directory.error();
  const auto stat = GPUYARD_TRY(read_stat(*directory));
  const auto start = GPUYARD_TRY(start_of(stat));
  // With the same start, the handle is of this process, or of one that is gone and gets nothing.
  if (start != process.started) return process_not_found_error(process.pid);
  if (is_allowed_uid) {
    const auto status = GPUYARD_TRY(read_status(*directory));
    const auto uids = uids_in(status);
    if (!uids || !is_allowed_uid(uids->effective) || !is_allowed_uid(uids->real)) {
      return Error{Errc::denied, fmt::format("process {} runs as another user", process.pid)};
    }
  }
  if (pidfd_send_signal(handle, number)) return {};
  if (errno == ESRCH) return process_not_found_error(process.pid);
  return system_error(fmt::format("sending signal {} to process {}", number, process.pid));
}

bool can_signal(std::uint32_t uid) {
  if (uid == ::getuid() || uid == ::geteuid()) return true;
  return (effective_capabilities() & capability_bit(CAP_KILL)) != 0;
}

PidNamespaceId own_pid_namespace() {
  std::error_code failed;
  return {gpuyard::boot_id(), std::filesystem::read_symlink("/proc/self/ns/pid", failed)};
}

// The kernel gives the first namespace this inode number since Linux 3.8, which added the links.
bool is_initial_pid_namespace(std::string_view link) {
  return link == "pid:[4026531836]";
}

Result<void> check_pid_namespace(const std::string& proc_root) {
  if (proc_root != kProcRoot) return {};
  if (is_initial_pid_namespace(own_pid_namespace().pid_namespace)) return {};
  return Error{Errc::unsupported,
               "in a container its PID may belong to another process here; mount the host's /proc "
               "and set processes.proc_root"};
}

}  // namespace gpuyard::processes
