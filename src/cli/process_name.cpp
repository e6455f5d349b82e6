#include "cli/process_name.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/unique_fd.h"

namespace gpuyard::cli {
namespace {

// The beginning only: a process may have megabytes of arguments.
std::string beginning_of(const std::string& path) {
  constexpr std::size_t kMost = 512;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, kMost> bytes{};
  const ssize_t size = file.get() < 0 ? -1 : ::read(file.get(), bytes.data(), bytes.size());
  return size > 0 ? std::string(bytes.data(), static_cast<std::size_t>(size)) : std::string();
}

}  // namespace

std::optional<std::string> process_name(std::uint32_t pid) {
  const std::string place = "/proc/" + std::to_string(pid);
  std::string name = beginning_of(place + "/cmdline");
  name.resize(std::min(name.size(), name.find('\0')));
  if (name.empty()) {
    name = beginning_of(place + "/comm");
    name.resize(std::min(name.size(), name.find('\n')));
  }
  if (name.empty()) return std::nullopt;
  return name;
}

}  // namespace gpuyard::cli
