#include "library/own_place.h"

#include <dlfcn.h>
#include <unistd.h>

#include "base/files.h"

namespace gpuyard::library {
namespace {

constexpr const char* kNvml = "/libnvidia-ml.so.1";

std::string own_directory() {
  Dl_info info{};
  const auto* here = reinterpret_cast<const void*>(&own_directory);
  if (::dladdr(here, &info) == 0 || info.dli_fname == nullptr) return "";
  return parent_directory(info.dli_fname);
}

}  // namespace

std::string simulated_nvml_beside_library() {
  const std::string here = own_directory();
  std::string installed = here + "/gpuyard/sim" + kNvml;
  // A distribution may put libraries one folder deeper than the rest, and a build tree has both in
  // its root.
  for (const std::string& path :
       {installed, here + "/../gpuyard/sim" + kNvml, here + "/sim" + kNvml}) {
    if (::access(path.c_str(), R_OK) == 0) return path;
  }
  return installed;
}

}  // namespace gpuyard::library
