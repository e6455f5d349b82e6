// NVML as a table of function pointers, filled by dlsym or, in a test of one return code, by hand.
// Knows which symbols there are and how they are called; nothing about what the answers mean.
#pragma once

#include <string>

#include "base/result.h"
#include "nvml/abi.h"

namespace gpuyard::nvml {

// One symbol. A library that lacks it answers FUNCTION_NOT_FOUND, for this call alone.
template <class... Args>
struct Call {
  ReturnCode (*function)(Args...) = nullptr;

  ReturnCode operator()(Args... args) const {
    return function != nullptr ? function(args...) : kFunctionNotFound;
  }
};

struct Api {
  Call<> init;
  Call<> shutdown;

  Call<char*, unsigned> driver_version;
  Call<char*, unsigned> nvml_version;
  Call<int*> cuda_driver_version;  // 12020 is 12.2

  Call<unsigned*> device_count;
  Call<unsigned, DeviceHandle*> handle_by_index;
  Call<DeviceHandle, char*, unsigned> name;
  Call<DeviceHandle, char*, unsigned> uuid;
  Call<DeviceHandle, PciInfo*> pci_info;

  Call<DeviceHandle, MemoryV1*> memory_info;
  Call<DeviceHandle, Utilization*> utilization_rates;
  Call<DeviceHandle, TemperatureV1*> temperature_v;
  Call<DeviceHandle, unsigned, unsigned*> temperature;               // sensor, C
  Call<DeviceHandle, unsigned*> power_usage;                         // mW
  Call<DeviceHandle, unsigned*> enforced_power_limit;                // mW
  Call<DeviceHandle, unsigned long long*> total_energy_consumption;  // mJ
  Call<DeviceHandle, unsigned, unsigned*> clock_info;                // nvmlClockType_t, MHz
};

struct Library {
  Api api;
  std::string path;  // of the file that was loaded
};

// Loads `path`, or where that is empty libnvidia-ml.so.1 and then libnvidia-ml.so from the loader's
// path. The library is never unloaded: a thread may be blocked inside it for ever.
// Error: init_failed("NVML Shared Library Not Found"), or with the loader's words for a `path`.
Result<Library> load_library(const std::string& path);

}  // namespace gpuyard::nvml
