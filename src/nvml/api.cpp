#include "nvml/api.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <initializer_list>

#include "device/error.h"
#include "nvml/codes.h"

namespace gpuyard::nvml {
namespace {

// The first of `names` that the library has; newest suffix first. Names share one signature.
template <class Function>
void bind(void* library, Function*& function, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* symbol = ::dlsym(library, name)) {
      function = reinterpret_cast<Function*>(symbol);
      return;
    }
  }
}

template <class... Args>
void bind(void* library, Call<Args...>& call, std::initializer_list<const char*> names) {
  bind(library, call.function, names);
}

Api bind_all(void* library) {
  Api api;
  bind(library, api.init, {"nvmlInit_v2", "nvmlInit"});
  bind(library, api.shutdown, {"nvmlShutdown"});
  bind(library, api.driver_version, {"nvmlSystemGetDriverVersion"});
  bind(library, api.nvml_version, {"nvmlSystemGetNVMLVersion"});
  bind(library, api.cuda_driver_version,
       {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"});
  bind(library, api.device_count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  bind(library, api.handle_by_index,
       {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  bind(library, api.name, {"nvmlDeviceGetName"});
  bind(library, api.uuid, {"nvmlDeviceGetUUID"});
  bind(library, api.pci_info, {"nvmlDeviceGetPciInfo_v3"});
  bind(library, api.memory_info, {"nvmlDeviceGetMemoryInfo"});
  bind(library, api.utilization_rates, {"nvmlDeviceGetUtilizationRates"});
  bind(library, api.temperature_v, {"nvmlDeviceGetTemperatureV"});
  bind(library, api.temperature, {"nvmlDeviceGetTemperature"});
  bind(library, api.power_usage, {"nvmlDeviceGetPowerUsage"});
  bind(library, api.enforced_power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  bind(library, api.total_energy_consumption, {"nvmlDeviceGetTotalEnergyConsumption"});
  bind(library, api.clock_info, {"nvmlDeviceGetClockInfo"});
  return api;
}

std::string path_of(void* library) {
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return "";
  char* resolved = ::realpath(map->l_name, nullptr);
  std::string path = resolved != nullptr ? resolved : map->l_name;
  std::free(resolved);
  return path;
}

}  // namespace

Result<Library> load_library(const std::string& path) {
  void* library = nullptr;
  if (!path.empty()) {
    library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return init_failed(::dlerror());
  } else {
    library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) library = ::dlopen("libnvidia-ml.so", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return init_failed(text_of(kLibraryNotFound));
  }
  return Library{bind_all(library), path_of(library)};
}

}  // namespace gpuyard::nvml
