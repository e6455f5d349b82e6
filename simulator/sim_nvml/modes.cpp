// What a GPU is set to.
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using sim::Call;
using sim_nvml::Device;

constexpr unsigned kOff = 0;
constexpr unsigned kOn = 1;
constexpr unsigned kComputeModeDefault = 0;

// A mode that has a pending value beside the current one, and no change is pending.
ReturnCode settled(DeviceHandle handle, unsigned value, unsigned* current, unsigned* pending) {
  return sim_nvml::on_device(Call::modes, handle, current != nullptr && pending != nullptr,
                             [&](const Device&) {
                               *current = value;
                               *pending = value;
                               return kSuccess;
                             });
}

ReturnCode constant(DeviceHandle handle, unsigned value, unsigned* out) {
  return sim_nvml::read_one(Call::modes, handle, out, [=](const Device&) { return value; });
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetPersistenceMode(DeviceHandle handle, unsigned* mode) {
  return constant(handle, kOff, mode);  // what a driver starts with; nothing here can set it yet
}

SIM_NVML_ENTRY nvmlDeviceGetMigMode(DeviceHandle handle, unsigned* current, unsigned* pending) {
  return settled(handle, kOff, current, pending);
}

SIM_NVML_ENTRY nvmlDeviceIsMigDeviceHandle(DeviceHandle handle, unsigned* is_mig) {
  return constant(handle, kOff, is_mig);
}

SIM_NVML_ENTRY nvmlDeviceGetEccMode(DeviceHandle handle, unsigned* current, unsigned* pending) {
  return settled(handle, kOn, current, pending);
}

SIM_NVML_ENTRY nvmlDeviceGetComputeMode(DeviceHandle handle, unsigned* mode) {
  return constant(handle, kComputeModeDefault, mode);
}

SIM_NVML_ENTRY nvmlDeviceGetDisplayActive(DeviceHandle handle, unsigned* active) {
  return constant(handle, kOff, active);
}

SIM_NVML_ENTRY nvmlDeviceGetDisplayMode(DeviceHandle handle, unsigned* mode) {
  return constant(handle, kOff, mode);
}
