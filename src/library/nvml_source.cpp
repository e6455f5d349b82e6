#include "library/nvml_source.h"

#include <cstdlib>

#include "nvml/nvml_backend.h"

namespace gpuyard::library {

NvmlChoice choose_nvml(const std::string& configured, const std::string& simulated_library) {
  if (!configured.empty()) return {configured, simulated_library};
  const char* world = std::getenv("GPUYARD_SIM_WORLD");
  const bool in_a_world = world != nullptr && *world != '\0';
  return {in_a_world ? simulated_library : "", simulated_library};
}

Result<std::unique_ptr<Backend>> open_nvml(const NvmlChoice& choice) {
  return nvml::make_backend(choice.path, choice.simulated_library);
}

}  // namespace gpuyard::library
