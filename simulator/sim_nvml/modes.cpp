// What a GPU is set to.
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using sim::Call;
using sim_nvml::Device;

constexpr unsigned kOff = 0;
constexpr unsigned kMostMigDevices = 7;

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetPersistenceMode(DeviceHandle handle, unsigned* mode) {
  return sim_nvml::read_one(Call::modes, handle, mode,
                            [](const Device& d) { return d.record.persistence_mode; });
}

SIM_NVML_ENTRY nvmlDeviceGetComputeMode(DeviceHandle handle, unsigned* mode) {
  return sim_nvml::read_one(Call::modes, handle, mode,
                            [](const Device& d) { return d.record.compute_mode; });
}

SIM_NVML_ENTRY nvmlDeviceGetMigMode(DeviceHandle handle, unsigned* current, unsigned* pending) {
  return sim_nvml::read_two(Call::modes, handle, current, pending, [](const Device& d) {
    return sim_nvml::when(d.model.has_mig, std::pair(d.record.mig_mode, d.record.mig_mode));
  });
}

SIM_NVML_ENTRY nvmlDeviceIsMigDeviceHandle(DeviceHandle handle, unsigned* is_mig) {
  return sim_nvml::read_one(Call::modes, handle, is_mig, [](const Device&) { return kOff; });
}

// Zero where MIG is not supported or not on.
SIM_NVML_ENTRY nvmlDeviceGetMaxMigDeviceCount(DeviceHandle handle, unsigned* count) {
  return sim_nvml::read_one(Call::modes, handle, count, [](const Device& d) {
    return d.record.mig_mode != kOff ? kMostMigDevices : 0;
  });
}

// No simulated GPU drives a display; some boards could.
SIM_NVML_ENTRY nvmlDeviceGetDisplayActive(DeviceHandle handle, unsigned* active) {
  return sim_nvml::read_one(Call::modes, handle, active, [](const Device&) { return kOff; });
}

SIM_NVML_ENTRY nvmlDeviceGetDisplayMode(DeviceHandle handle, unsigned* mode) {
  return sim_nvml::read_one(Call::modes, handle, mode,
                            [](const Device& d) { return d.model.display_mode ? 1 : 0; });
}
