// Makes each look-up of a user's name take 8 s, as a name service that does not answer, while the
// file that SLOW_NAMES names exists. Built and preloaded by test_slow_names.py.
#include <dlfcn.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

using LookUp = int(uid_t, passwd*, char*, size_t, passwd**);

extern "C" int getpwuid_r(uid_t uid, passwd* entry, char* text, size_t size, passwd** found) {
  const char* const name = std::getenv("SLOW_NAMES");
  if (name != nullptr && ::access(name, F_OK) == 0) ::usleep(8'000'000);
  return reinterpret_cast<LookUp*>(::dlsym(RTLD_NEXT, "getpwuid_r"))(uid, entry, text, size, found);
}
