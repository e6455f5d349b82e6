#include "library/nvml_source.h"

#include <cstdlib>
#include <filesystem>

#include "nvml/nvml_backend.h"

namespace gpuyard::library {
namespace {

bool same_file(const std::string& a, const std::string& b) {
  std::error_code failed;
  return std::filesystem::equivalent(a, b, failed) && !failed;
}

}  // namespace

NvmlChoice choose_nvml(const std::string& configured, const std::string& simulated_library) {
  if (!configured.empty()) return {configured, same_file(configured, simulated_library)};
  const char* world = std::getenv("GPUYARD_SIM_WORLD");
  if (world != nullptr && *world != '\0') return {simulated_library, true};
  return {};
}

Result<std::unique_ptr<Backend>> open_nvml(const NvmlChoice& choice) {
  return nvml::make_backend(choice.path);
}

}  // namespace gpuyard::library
