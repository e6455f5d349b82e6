#include "sim/world_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace gpuyard::sim {
namespace {

constexpr const char* kLibrary = "libnvidia-ml.so.1";

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
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

std::string own_nvml_path(const std::string& directory) {
  return directory + "/" + kLibrary;
}

std::string nvml_path_of(const std::string& directory) {
  std::string own = own_nvml_path(directory);
  struct stat info{};
  const bool there = ::stat(own.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  return there && (info.st_uid == 0 || info.st_uid == ::geteuid()) ? own : whole_nvml_path();
}

std::string simulated_nvml_path() {
  return nvml_path_of(default_world_directory());
}

std::string whole_nvml_path() {
  const std::string here = own_directory();
  std::string in_build_tree = here + "/sim/" + kLibrary;
  if (::access(in_build_tree.c_str(), R_OK) == 0) return in_build_tree;
  return here + "/../lib/gpuyard/sim/" + kLibrary;
}

}  // namespace gpuyard::sim
