#include "processes/mark_host.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/log.h"
#include "processes/mark_records.h"

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
bool say(int socket, const std::string& answer) {
  return ::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL) >= 0;
}

bool hand_over(int socket, const FileQuestion& question, const UniqueFd& file) {
  std::string bytes = answer_to(question, static_cast<bool>(file));
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (file) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = file.get();
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0;
}

}  // namespace

void serve_marks(UniqueFd socket, const MarkRoots& roots, const std::vector<std::string>& files) {
  MarkReader ours(roots.ours);
  MarkReader drivers(roots.drivers);
  std::string bytes(kMostMarkBytes, '\0');
  std::uint32_t look = 0;
  TimePoint until{};
  Result<ProcessTable> table = ProcessTable{};
  for (;;) {
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || static_cast<std::size_t>(got) > bytes.size()) return;
    const std::string_view received(bytes.data(), static_cast<std::size_t>(got));
    if (const auto wanted = file_question_in(received)) {
      if (!hand_over(socket.get(), *wanted, open_listed(files, wanted->digest))) return;
      continue;
    }
    if (const auto looked = view_question_in(received)) {
      const std::string& root = looked->numbering == PidSpace::drivers ? roots.drivers : roots.ours;
      if (!say(socket.get(), answer_to(*looked, view_process(root, looked->pid)))) return;
      continue;
    }
    if (const auto listed = table_question_in(received)) {
      // One table for all its parts, so that no row is in two of them.
      if (listed->from == 0) table = read_process_table(roots.ours);
      if (!table || !say(socket.get(), answer_to(*listed, *table))) return;
      continue;
    }
    const auto question = question_in(received);
    if (!question) return;
    const TimePoint now = BootClock::now();
    if (until == TimePoint{} || question->look != look) until = now + MarkReader::kLongestLoading;
    look = question->look;
    MarkReader& reader = question->numbering == PidSpace::drivers ? drivers : ours;
    const std::string answer =
        answer_to(*question, reader.read(question->processes, question->leases, now, until));
    if (!say(socket.get(), answer)) return;
  }
}

bool may_ask(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  sockaddr_un address{};
  size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      address.sun_family != AF_UNIX) {
    return false;
  }
  const std::size_t length = size - offsetof(sockaddr_un, sun_path);
  if (length == 0) return peer.pid == ::getppid();
  const std::string path(address.sun_path, ::strnlen(address.sun_path, length));
  struct stat info{};
  if (path.empty() || ::stat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return false;
  return peer.uid == 0 || peer.uid == info.st_uid;
}

namespace {

// What reading an environment of another user takes: the kernel asks for both.
constexpr std::array kNeeded = {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH};

void keep_capabilities(const std::vector<int>& needed) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return;
  std::array<__user_cap_data_struct, 2> kept{};
  for (const int each : needed) {
    auto& now = kept.at(CAP_TO_INDEX(each));
    now.permitted |= data.at(CAP_TO_INDEX(each)).permitted & CAP_TO_MASK(each);
    now.effective = now.permitted;
  }
  // As in the unit, whose filter of system calls would refuse the change.
  const bool no_more =
      data[0].permitted == kept[0].permitted && data[1].permitted == kept[1].permitted;
  if (no_more) return;
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (int each = 0; ::prctl(PR_CAPBSET_READ, each, 0, 0, 0) >= 0; ++each) {
    ::prctl(PR_CAPBSET_DROP, each, 0, 0, 0);
  }
  if (::syscall(SYS_capset, &header, kept.data()) != 0) {
    log::warning("gpuyard-marks keeps the capabilities that it was started with: {}",
                 std::strerror(errno));
  }
}

#if defined(__x86_64__)
constexpr std::uint32_t kMachine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kMachine = AUDIT_ARCH_AARCH64;
#endif

constexpr std::uint32_t kRefused = SECCOMP_RET_ERRNO | (EPERM & SECCOMP_RET_DATA);

constexpr std::uint32_t place_of_argument(std::uint32_t number) {
  // The low half, on machines with little-endian numbers.
  return std::uint32_t{offsetof(seccomp_data, args)} +
         number * std::uint32_t{sizeof(std::uint64_t)};
}

class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    unless_equal_refuse(kMachine);
    load(offsetof(seccomp_data, nr));
  }
  void allow(long call) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  // Allows the call if none of these bits is set in the argument.
  void allow_without(long call, std::uint32_t argument, std::uint32_t bits) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 4);
    load(place_of_argument(argument));
    add(BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    add(BPF_RET | BPF_K, kRefused);
  }
  // Allows the call if the argument is this number.
  void allow_with(long call, std::uint32_t argument, std::uint32_t number) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 4);
    load(place_of_argument(argument));
    add(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    add(BPF_RET | BPF_K, kRefused);
  }
  bool install() {
    add(BPF_RET | BPF_K, kRefused);
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  void add(unsigned code, std::uint32_t k, unsigned char yes = 0, unsigned char no = 0) {
    code_.push_back({static_cast<unsigned short>(code), yes, no, k});
  }
  void load(std::uint32_t place) { add(BPF_LD | BPF_W | BPF_ABS, place); }
  void unless_equal_refuse(std::uint32_t number) {
    add(BPF_JMP | BPF_JEQ | BPF_K, number, 1, 0);
    add(BPF_RET | BPF_K, kRefused);
  }

  std::vector<sock_filter> code_;
};

// Opens files to read them alone, writes to its log alone, and makes no memory executable. What is
// missing here matters most: no socket, no other process, no program, no file is made or changed.
bool allow_few_calls() {
  Filter filter;
  for (const long call :
       {SYS_recvfrom,        SYS_sendto,        SYS_sendmsg, SYS_read,         SYS_close,
        SYS_clock_nanosleep, SYS_clock_gettime, SYS_munmap,  SYS_brk,          SYS_mremap,
        SYS_futex,           SYS_getrandom,     SYS_ppoll,   SYS_newfstatat,   SYS_getdents64,
        SYS_lseek,           SYS_readlinkat,    SYS_fstat,   SYS_rt_sigreturn, SYS_restart_syscall,
        SYS_exit_group}) {
    filter.allow(call);
  }
#if defined(__x86_64__)  // what aarch64 never had
  for (const long call : {SYS_poll, SYS_readlink}) filter.allow(call);
#endif
  filter.allow_without(SYS_openat, 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND);
  filter.allow_without(SYS_mmap, 2, PROT_EXEC);
  filter.allow_without(SYS_mprotect, 2, PROT_EXEC);
  filter.allow_with(SYS_write, 0, STDERR_FILENO);
  return filter.install();
}

}  // namespace

void confine_marks(bool reads_kernel_log) {
  ::prctl(PR_SET_DUMPABLE, 0);
  std::vector<int> needed(kNeeded.begin(), kNeeded.end());
  if (reads_kernel_log) needed.push_back(CAP_SYSLOG);
  keep_capabilities(needed);
  if (!allow_few_calls()) {
    log::warning("gpuyard-marks runs without a filter of system calls: {}", std::strerror(errno));
  }
}

}  // namespace gpuyard::processes
