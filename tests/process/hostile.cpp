// What a process that was taken over would try. Preloaded into each process of a daemon by
// test_privileges.py. Once the file HOSTILE_GO exists, a thread that was there from the beginning
// types into the terminal HOSTILE_TERMINAL, reads a byte of the process HOSTILE_VICTIM, and makes
// an io_uring and a keyring of its own; then it writes the errno of each, or 0, into the directory
// HOSTILE_RESULTS, in a file named by its pid.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

int failed(long result) {
  return result < 0 ? errno : 0;
}

int type_into_terminal() {
  const int terminal = ::open(std::getenv("HOSTILE_TERMINAL"), O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return errno;
  char letter = 'x';
  const int result = failed(::ioctl(terminal, TIOCSTI, &letter));
  ::close(terminal);
  return result;
}

int read_memory() {
  char* end = nullptr;
  const pid_t victim = static_cast<pid_t>(std::strtol(std::getenv("HOSTILE_VICTIM"), &end, 10));
  char byte = 0;
  iovec here{&byte, 1};
  iovec there{reinterpret_cast<void*>(std::strtoul(end + 1, nullptr, 16)), 1};
  return failed(::process_vm_readv(victim, &here, 1, &there, 1, 0));
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

void attack() {
  while (::access(std::getenv("HOSTILE_GO"), F_OK) != 0) ::usleep(5'000);
  const int results[] = {type_into_terminal(), read_memory(), make_io_uring(), join_keyring()};
  const std::string path =
      std::string(std::getenv("HOSTILE_RESULTS")) + "/" + std::to_string(::getpid());
  std::FILE* const file = std::fopen((path + ".new").c_str(), "w");
  if (file == nullptr) return;
  for (const int result : results) std::fprintf(file, "%d ", result);
  std::fclose(file);
  std::rename((path + ".new").c_str(), path.c_str());
}

[[gnu::constructor]] void begin() {
  if (std::getenv("HOSTILE_GO") != nullptr) std::thread(attack).detach();
}

}  // namespace
