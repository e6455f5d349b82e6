#include "sim/command.h"

#include <fcntl.h>

#include <cstdio>

#include "base/files.h"

namespace gpuyard::sim {

Result<WorldSocketAddress> WorldSocketAddress::create(const std::string& directory) {
  UniqueFd opened(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return system_error("opening " + directory);
  return WorldSocketAddress(std::move(opened));
}

WorldSocketAddress::WorldSocketAddress(UniqueFd directory) : directory_(std::move(directory)) {
  address_.sun_family = AF_UNIX;
  std::snprintf(address_.sun_path, sizeof address_.sun_path, "/proc/self/fd/%d/%s",
                directory_.get(), kWorldSocket);
}

}  // namespace gpuyard::sim
