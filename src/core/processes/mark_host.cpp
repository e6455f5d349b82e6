#include "core/processes/mark_host.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/capabilities.h"
#include "base/files.h"
#include "base/log.h"
#include "base/passed_fds.h"
#include "base/seccomp_program.h"
#include "base/trusted_file.h"
#include "core/processes/mark_records.h"

namespace gpuyard::processes {

namespace {

bool is_kernel_log(const struct stat& info) {
  return S_ISCHR(info.st_mode) && info.st_rdev == ::makedev(1, 11);
}

UniqueFd open_listed(const std::vector<std::string>& files, std::uint64_t digest) {
  for (const std::string& path : files) {
    if (digest_of(path) != digest || !check_only_root_can_change(path)) continue;
    UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat info{};
    const bool good =
        file && ::fstat(file.get(), &info) == 0 && (S_ISREG(info.st_mode) || is_kernel_log(info));
    if (good) return file;
  }
  return {};
}

// These return false if the other end is gone.
bool send_reply(int socket, const std::string& reply) {
  return ::send(socket, reply.data(), reply.size(), MSG_NOSIGNAL) >= 0;
}

bool send_file(int socket, const FileRequest& request, const UniqueFd& file) {
  const int fd = file.get();
  const std::span<const int> fds(&fd, file ? 1 : 0);
  return send_with_fds(socket, encode_reply(request, static_cast<bool>(file)), fds) >= 0;
}

#if defined(__x86_64__)
constexpr std::uint32_t kAuditArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kAuditArch = AUDIT_ARCH_AARCH64;
#endif

// Refuses every system call but those that are named.
class CallFilter {
 public:
  CallFilter() { program_.load_number(); }

  void allow(long call) {
    program_.skip_unless(static_cast<std::uint32_t>(call), 1);
    program_.allow();
  }
  // Allows the call if none of these bits is set in the argument.
  void allow_without(long call, std::size_t argument, std::uint32_t bits) {
    begin_condition(call, argument);
    program_.skip_if_any(bits, 1);
    end_condition();
  }
  // Allows the call if the argument is this number.
  void allow_with(long call, std::size_t argument, std::uint32_t number) {
    begin_condition(call, argument);
    program_.skip_unless(number, 1);
    end_condition();
  }

  Result<void> install() const {
    SeccompProgram whole;
    whole.load_architecture();
    whole.skip_unless(kAuditArch, program_.size());
    whole.append(program_);
    whole.deny();
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return system_error("setting no_new_privs");
    return whole.install();
  }

 private:
  static constexpr std::size_t kConditionLength = 4;  // instructions

  void begin_condition(long call, std::size_t argument) {
    program_.skip_unless(static_cast<std::uint32_t>(call), kConditionLength);
    program_.load_argument(argument);
  }
  void end_condition() {
    program_.allow();
    program_.deny();
  }

  SeccompProgram program_;
};

// Allows opening files to read them and writing to the log. Allows no executable memory, no new
// socket, process or program, and no file to be created or changed.
Result<void> install_call_filter() {
  CallFilter calls;
  for (const long call :
       {SYS_recvfrom,        SYS_sendto,        SYS_sendmsg, SYS_read,         SYS_close,
        SYS_clock_nanosleep, SYS_clock_gettime, SYS_munmap,  SYS_brk,          SYS_mremap,
        SYS_futex,           SYS_getrandom,     SYS_ppoll,   SYS_newfstatat,   SYS_getdents64,
        SYS_lseek,           SYS_readlinkat,    SYS_fstat,   SYS_rt_sigreturn, SYS_restart_syscall,
        SYS_exit_group}) {
    calls.allow(call);
  }
#if defined(__x86_64__)  // what aarch64 never had
  for (const long call : {SYS_poll, SYS_readlink}) calls.allow(call);
#endif
  calls.allow_without(SYS_openat, 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND);
  calls.allow_without(SYS_mmap, 2, PROT_EXEC);
  calls.allow_without(SYS_mprotect, 2, PROT_EXEC);
  calls.allow_with(SYS_write, 0, STDERR_FILENO);
  return calls.install();
}

}  // namespace

void serve_marks(UniqueFd socket, const MarkRoots& roots, const std::vector<std::string>& files) {
  MarkReader ours(roots.ours);
  MarkReader drivers(roots.drivers);
  std::string bytes(kMaxMarkBytes, '\0');
  std::uint32_t scan = 0;
  TimePoint until{};
  Result<ProcessTable> table = ProcessTable{};
  for (;;) {
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || static_cast<std::size_t>(got) > bytes.size()) return;
    const std::string_view received(bytes.data(), static_cast<std::size_t>(got));
    if (const auto file_request = parse_file_request(received)) {
      if (!send_file(socket.get(), *file_request, open_listed(files, file_request->digest))) return;
      continue;
    }
    if (const auto view_request = parse_view_request(received)) {
      const std::string& root =
          view_request->pid_space == PidSpace::drivers ? roots.drivers : roots.ours;
      if (!send_reply(socket.get(),
                      encode_reply(*view_request, view_process(root, view_request->pid))))
        return;
      continue;
    }
    if (const auto table_request = parse_table_request(received)) {
      // One table for all its parts, so that no row is in two of them.
      if (table_request->from == 0) table = read_process_table(roots.ours);
      if (!table || !send_reply(socket.get(), encode_reply(*table_request, *table))) return;
      continue;
    }
    const auto mark_request = parse_mark_request(received);
    if (!mark_request) return;
    const TimePoint now = BootClock::now();
    if (until == TimePoint{} || mark_request->scan != scan) until = now + MarkReader::kLoadTimeout;
    scan = mark_request->scan;
    MarkReader& reader = mark_request->pid_space == PidSpace::drivers ? drivers : ours;
    const std::string reply = encode_reply(
        *mark_request, reader.read(mark_request->processes, mark_request->leases, now, until));
    if (!send_reply(socket.get(), reply)) return;
  }
}

void confine_marks(bool reads_kernel_log) {
  ::prctl(PR_SET_DUMPABLE, 0);
  std::uint64_t needed = capability_bit(CAP_SYS_PTRACE) | capability_bit(CAP_DAC_READ_SEARCH);
  if (reads_kernel_log) needed |= capability_bit(CAP_SYSLOG);
  if (auto kept = keep_only_capabilities_permanently(needed); !kept) {
    log::warning("gpuyard-marks keeps the capabilities that it was started with: {}",
                 kept.error().text());
  }
  if (auto done = install_call_filter(); !done) {
    log::warning("gpuyard-marks runs without a filter of system calls: {}", done.error().text());
  }
}

}  // namespace gpuyard::processes
