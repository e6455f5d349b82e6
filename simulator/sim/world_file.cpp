#include "sim/world_file.h"

#include <fcntl.h>
#include <time.h>

#include <string_view>

#include "base/unique_fd.h"

namespace gpuyard::sim {

// gpuyard_base has both of these, but this file is also part of the simulated NVML, which must not
// bring the project's libraries into foreign programs.

std::uint64_t boot_time_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

std::string current_boot_id() {
  const UniqueFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  const ssize_t got = file ? ::read(file.get(), text.data(), text.size()) : -1;
  if (got <= 0) return "";
  const std::string_view line(text.data(), static_cast<std::size_t>(got));
  return std::string(line.substr(0, line.find('\n')));
}

}  // namespace gpuyard::sim
