// The simulated NVML, in which some calls answer what a file says instead: the decimal number in
// $ODD_DIRECTORY/<call>. Without the file the simulated driver answers. Built by
// test_implausible_values.py.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

constexpr int kNotSupported = 3;

bool odd(const char* call, unsigned long long& number) {
  const char* const directory = std::getenv("ODD_DIRECTORY");
  if (directory == nullptr) return false;
  std::FILE* const file = std::fopen((std::string(directory) + "/" + call).c_str(), "re");
  if (file == nullptr) return false;
  const bool found = std::fscanf(file, "%llu", &number) == 1;
  std::fclose(file);
  return found;
}

template <class Number>
int answer(const char* call, void* device, Number* number) {
  unsigned long long given = 0;
  if (odd(call, given)) return *number = static_cast<Number>(given), 0;
  const auto real = reinterpret_cast<int (*)(void*, Number*)>(::dlsym(RTLD_NEXT, call));
  return real != nullptr ? real(device, number) : kNotSupported;
}

}  // namespace

extern "C" {
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  return answer("nvmlDeviceGetPowerUsage", device, milliwatts);
}
int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
  return answer("nvmlDeviceGetCurrentClocksEventReasons", device, reasons);
}
}
