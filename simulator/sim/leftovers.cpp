#include "sim/leftovers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/unique_fd.h"
#include "sim/command.h"
#include "sim/world_directory.h"
#include "sim/world_file.h"

namespace gpuyard::sim {
namespace {

// By its first bytes: any layout, of any boot.
bool is_world(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  auto magic = std::array<char, 8>{};
  return ::pread(file.get(), magic.data(), magic.size(), 0) == static_cast<ssize_t>(magic.size()) &&
         magic == kWorldMagic;
}

bool is_file(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_socket(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

}  // namespace

void remove_leftovers(const std::string& directory) {
  const std::string state = directory + "/" + kStateFile;
  const std::string socket = directory + "/" + kKeeperSocket;
  if (is_world(state)) ::unlink(state.c_str());
  if (is_socket(socket)) ::unlink(socket.c_str());
  const std::string library = own_nvml_path(directory);
  if (is_file(library)) ::unlink(library.c_str());
}

}  // namespace gpuyard::sim
