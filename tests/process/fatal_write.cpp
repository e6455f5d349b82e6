// Kills the program into which it is loaded, at one write to the log of its database: the Nth since
// the file that FATAL_WRITE names was created. The file holds N, in decimal. Built and preloaded by
// test_control_crash.py.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool is_log(int fd) {
  char link[64];
  char path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, path, sizeof path);
  constexpr char kName[] = "/state.db-wal";
  constexpr ssize_t kLength = sizeof kName - 1;
  return length > kLength && std::memcmp(path + length - kLength, kName, kLength) == 0;
}

// Returns N; 0 while the file does not exist.
long fatal_number() {
  const char* const name = std::getenv("FATAL_WRITE");
  const int file = name != nullptr ? ::open(name, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return 0;
  char text[16] = {};
  const ssize_t got = ::read(file, text, sizeof text - 1);
  ::close(file);
  return got > 0 ? std::strtol(text, nullptr, 10) : 0;
}

// Needs no lock: only the thread of the database writes to the log.
void count(int fd) {
  static long seen = 0;
  if (!is_log(fd)) return;
  const long fatal = fatal_number();
  if (fatal > 0 && ++seen == fatal) ::kill(::getpid(), SIGKILL);
}

using Write = ssize_t(int, const void*, size_t, off_t);

ssize_t pass_on(const char* name, int fd, const void* data, size_t size, off_t at) {
  return reinterpret_cast<Write*>(::dlsym(RTLD_NEXT, name))(fd, data, size, at);
}

}  // namespace

extern "C" ssize_t pwrite64(int fd, const void* data, size_t size, off_t at) {
  count(fd);
  return pass_on("pwrite64", fd, data, size, at);
}

extern "C" ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  count(fd);
  return pass_on("pwrite", fd, data, size, at);
}
