// A driver with a call that gets stuck inside the kernel: the simulated NVML, but one call first
// accesses a file system. While that is frozen the thread is in uninterruptible sleep, which
// neither SIGKILL nor _exit ends. Built by test_stuck_in_kernel.py.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

extern "C" int nvmlDeviceGetIndex(void* device, unsigned* index);

extern "C" int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  unsigned index = 0;
  const char* const file = std::getenv("STUCK_FILE");
  if (file != nullptr && nvmlDeviceGetIndex(device, &index) == 0 && index == 0) {
    const int fd = ::open(file, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0) ::close(fd);
  }
  using PowerUsage = int (*)(void*, unsigned*);
  static const auto real =
      reinterpret_cast<PowerUsage>(::dlsym(RTLD_NEXT, "nvmlDeviceGetPowerUsage"));
  return real(device, milliwatts);
}
