// Delays each look-up of a user's name by 8 s, as a name service that is not responding does, while
// the file named by SLOW_NAMES exists. Appends a byte to that file at each such look-up. Built and
// preloaded by test_slow_names.py.
#include <dlfcn.h>
#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

using LookUp = int(uid_t, passwd*, char*, size_t, passwd**);

extern "C" int getpwuid_r(uid_t uid, passwd* entry, char* text, size_t size, passwd** found) {
  const char* const name = std::getenv("SLOW_NAMES");
  const int fd = name == nullptr ? -1 : ::open(name, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd >= 0) {
    if (::write(fd, ".", 1) == 1) ::usleep(8'000'000);
    ::close(fd);
  }
  return reinterpret_cast<LookUp*>(::dlsym(RTLD_NEXT, "getpwuid_r"))(uid, entry, text, size, found);
}
