// Reading a GPU's settings.
#include "sim/setting.h"
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;
using sim::WriteKind;

constexpr unsigned kOff = 0;
constexpr unsigned kMaxMigDevices = 7;

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetPersistenceMode(DeviceHandle handle, unsigned* mode) {
  return read_one(Call::modes, handle, mode, &sim::GpuRecord::persistence_mode);
}

SIM_NVML_ENTRY nvmlDeviceGetComputeMode(DeviceHandle handle, unsigned* mode) {
  return read_one(Call::modes, handle, mode, &sim::GpuRecord::compute_mode);
}

SIM_NVML_ENTRY nvmlDeviceGetMigMode(DeviceHandle handle, unsigned* current, unsigned* pending) {
  return read_two(Call::modes, handle, current, pending, [](const Device& d) {
    return optional_if(d.model.has_mig, std::pair(d.record.mig_mode, d.record.mig_mode));
  });
}

SIM_NVML_ENTRY nvmlDeviceIsMigDeviceHandle(DeviceHandle handle, unsigned* is_mig) {
  return read_one(Call::modes, handle, is_mig, [](const Device&) { return kOff; });
}

// Zero if MIG is not supported or off.
SIM_NVML_ENTRY nvmlDeviceGetMaxMigDeviceCount(DeviceHandle handle, unsigned* count) {
  return read_one(Call::modes, handle, count,
                  [](const Device& d) { return d.record.mig_mode != kOff ? kMaxMigDevices : 0; });
}

// No simulated GPU drives a display; some boards could.
SIM_NVML_ENTRY nvmlDeviceGetDisplayActive(DeviceHandle handle, unsigned* active) {
  return read_one(Call::modes, handle, active, [](const Device&) { return kOff; });
}

SIM_NVML_ENTRY nvmlDeviceGetDisplayMode(DeviceHandle handle, unsigned* mode) {
  return read_one(Call::modes, handle, mode,
                  [](const Device& d) { return d.model.is_display_mode_enabled ? 1 : 0; });
}
