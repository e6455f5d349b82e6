#include "sim/world_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
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

namespace {

constexpr const char* kLibrary = "libnvidia-ml.so.1";

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Whether the file is of that kind, and only root and this user can replace it. A link is refused:
// it could lead anywhere.
bool is_private_file(const std::string& path, mode_t kind) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || (info.st_mode & S_IFMT) != kind) return false;
  constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
  return (info.st_uid == 0 || info.st_uid == ::geteuid()) && (info.st_mode & kOthersWrite) == 0;
}

std::string own_directory() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  const std::string program(path.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return program.substr(0, program.rfind('/'));
}

}  // namespace

std::string default_world_directory() {
  if (auto named = from_environment("GPUYARD_SIM_WORLD"); !named.empty()) return named;
  if (auto runtime = from_environment("XDG_RUNTIME_DIR"); !runtime.empty()) {
    return runtime + "/gpuyard/sim";
  }
  return "/tmp/gpuyard-sim-" + std::to_string(::geteuid());
}

std::string stripped_nvml_path(const std::string& directory) {
  return directory + "/" + kLibrary;
}

std::string smi_link_path(const std::string& directory) {
  return directory + "/nvidia-smi";
}

std::string nvml_path_of(const std::string& directory) {
  std::string own = stripped_nvml_path(directory);
  const bool trusted = is_private_file(directory, S_IFDIR) && is_private_file(own, S_IFREG);
  return trusted ? own : full_nvml_path();
}

std::string simulated_nvml_path() {
  return nvml_path_of(default_world_directory());
}

std::string full_nvml_path() {
  const std::string here = own_directory();
  std::string in_build_tree = here + "/sim/" + kLibrary;
  if (::access(in_build_tree.c_str(), R_OK) == 0) return in_build_tree;
  return here + "/../lib/gpuyard/sim/" + kLibrary;
}

}  // namespace gpuyard::sim
