// Delays each read of the daemon's state.db, as a cold or busy disk does, while the file named by
// SLOW_READ exists: by as many milliseconds as it says. Built and preloaded by
// test_reading_books.py.
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool is_state(int fd) {
  char link[64];
  char path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  path[length > 0 ? length : 0] = '\0';
  return std::strstr(path, "/state.db") != nullptr;
}

void wait_for_disk(int fd) {
  const char* const name = std::getenv("SLOW_READ");
  std::FILE* const file = name != nullptr && is_state(fd) ? std::fopen(name, "re") : nullptr;
  if (file == nullptr) return;
  char digits[16] = {};
  const bool written = std::fgets(digits, sizeof digits, file) != nullptr;
  std::fclose(file);
  if (written) ::usleep(1000 * static_cast<useconds_t>(std::atoi(digits)));
}

using Read = ssize_t(int, void*, size_t, off_t);

ssize_t pass_on(const char* name, int fd, void* data, size_t size, off_t at) {
  return reinterpret_cast<Read*>(::dlsym(RTLD_NEXT, name))(fd, data, size, at);
}

}  // namespace

extern "C" ssize_t pread64(int fd, void* data, size_t size, off_t at) {
  wait_for_disk(fd);
  return pass_on("pread64", fd, data, size, at);
}

extern "C" ssize_t pread(int fd, void* data, size_t size, off_t at) {
  wait_for_disk(fd);
  return pass_on("pread", fd, data, size, at);
}
