// What a process that was taken over would try. Preloaded into each process of a daemon. At signal
// 62 it tries it all, and says for each attempt its name and errno, or 0: in a file of the
// directory HOSTILE_RESULTS, named by its pid, or on stderr. The victims: the terminal
// HOSTILE_TERMINAL, the process HOSTILE_VICTIM ("PID ADDRESS", a byte of it that is to be read),
// the file HOSTILE_FILE, which all may read and write.
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int failed(long result) {
  return result < 0 ? errno : 0;
}

// The result of opening a file and doing something with it.
template <class Use>
int with_file(const std::string& path, int flags, const Use& use) {
  const int file = ::open(path.c_str(), flags | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return errno;
  const int result = use(file);
  ::close(file);
  return result;
}

int opening(const std::string& path, int flags = O_RDONLY) {
  return with_file(path, flags, [](int) { return 0; });
}

// An empty environment, of a process that may not be traced, is no success.
int reading(const std::string& path) {
  return with_file(path, O_RDONLY, [](int file) {
    char byte = 0;
    const long got = ::read(file, &byte, 1);
    return got == 0 ? ENODATA : failed(got);
  });
}

struct Victim {
  pid_t pid = 0;
  unsigned long address = 0;
  std::string proc() const { return "/proc/" + std::to_string(pid); }
};

Victim victim() {
  char* end = nullptr;
  Victim found;
  found.pid = static_cast<pid_t>(std::strtol(std::getenv("HOSTILE_VICTIM"), &end, 10));
  found.address = std::strtoul(end, nullptr, 16);
  return found;
}

int type_into_terminal() {
  return with_file(std::getenv("HOSTILE_TERMINAL"), O_RDONLY, [](int terminal) {
    char letter = 'x';
    return failed(::ioctl(terminal, TIOCSTI, &letter));
  });
}

int read_memory() {
  char byte = 0;
  iovec here{&byte, 1};
  iovec there{reinterpret_cast<void*>(victim().address), 1};
  return failed(::process_vm_readv(victim().pid, &here, 1, &there, 1, 0));
}

int read_memory_file() {
  return with_file(victim().proc() + "/mem", O_RDONLY, [](int file) {
    char byte = 0;
    if (::lseek(file, static_cast<off_t>(victim().address), SEEK_SET) < 0) return errno;
    return failed(::read(file, &byte, 1));
  });
}

int make_io_uring() {
  unsigned char parameters[256] = {};
  const long ring = ::syscall(425, 1, parameters);
  const int result = failed(ring);
  if (ring >= 0) ::close(static_cast<int>(ring));
  return result;
}

int join_keyring() {
  constexpr int kJoinSessionKeyring = 1;
  return failed(::syscall(SYS_keyctl, kJoinSessionKeyring, nullptr));
}

int make_socket(int family, int type, int protocol) {
  const int made = ::socket(family, type, protocol);
  const int result = failed(made);
  if (made >= 0) ::close(made);
  return result;
}

int trace() {
  const int result = failed(::ptrace(PTRACE_SEIZE, victim().pid, nullptr, nullptr));
  if (result != 0) return result;
  ::ptrace(PTRACE_INTERRUPT, victim().pid, nullptr, nullptr);
  ::waitpid(victim().pid, nullptr, __WALL);
  ::ptrace(PTRACE_DETACH, victim().pid, nullptr, nullptr);
  return result;
}

struct Attempt {
  const char* name;
  int (*make)();
};

constexpr Attempt kAttempts[] = {
    {"terminal", type_into_terminal},
    {"memory", read_memory},
    {"io_uring", make_io_uring},
    {"keyring", join_keyring},
    {"mem_file", read_memory_file},
    {"environ", [] { return reading(victim().proc() + "/environ"); }},
    {"trace", trace},
    {"kill", [] { return failed(::kill(victim().pid, 0)); }},
    {"shadow", [] { return opening("/etc/shadow"); }},
    {"root_link", [] { return opening("/proc/1/root/etc/shadow"); }},
    {"key", [] { return opening("/etc/keys/key.pem"); }},
    {"kernel_log", [] { return opening("/dev/kmsg"); }},
    {"others_file", [] { return opening(std::getenv("HOSTILE_FILE")); }},
    {"others_file_written", [] { return opening(std::getenv("HOSTILE_FILE"), O_WRONLY); }},
    {"state", [] { return opening("/var/lib/gpuyard/state.db", O_RDWR); }},
    {"change_log", [] { return opening("/var/lib/gpuyard-setter/changes.log", O_WRONLY); }},
    // Where it is permitted, there is no such file system.
    {"mount", [] { return failed(::mount("/", "/", "none-such", 0, nullptr)); }},
    {"klogctl", [] { return failed(::klogctl(3, nullptr, 0)); }},
    {"network", [] { return make_socket(AF_INET, SOCK_STREAM, 0); }},
    {"raw_network", [] { return make_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP); }},
};

void attack(int) {
  std::string results;
  for (const Attempt& attempt : kAttempts) {
    results += std::string(attempt.name) + "=" + std::to_string(attempt.make()) + " ";
  }
  const char* const directory = std::getenv("HOSTILE_RESULTS");
  if (directory == nullptr) {
    const std::string line = "hostile: " + results + "\n";
    static_cast<void>(::write(STDERR_FILENO, line.data(), line.size()) > 0);
    return;
  }
  const std::string path = std::string(directory) + "/" + std::to_string(::getpid());
  std::FILE* const file = std::fopen((path + ".new").c_str(), "w");
  if (file == nullptr) return;
  std::fputs(results.c_str(), file);
  std::fclose(file);
  std::rename((path + ".new").c_str(), path.c_str());
}

[[gnu::constructor]] void begin() {
  if (std::getenv("HOSTILE_VICTIM") != nullptr) ::signal(62, attack);
}

}  // namespace
