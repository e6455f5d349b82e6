// NVML's setters. They only send a request to the world server, which decides and gives the error;
// that takes at most the few seconds of sim/setting.h.
#include "sim/setting.h"
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;
using sim::WriteKind;

constexpr unsigned kModes = 2;         // nvmlEnableState_t
constexpr unsigned kComputeModes = 4;  // nvmlComputeMode_t

ReturnCode set(Call call, DeviceHandle handle, bool arguments_given, WriteKind setting,
               std::uint64_t first = 0, std::uint64_t second = 0) {
  return on_device(call, handle, arguments_given, [&](const Device& device) {
    return sim::call_setter(device.driver.world().directory(),
                            {.kind = setting, .gpu = device.place, .values = {first, second}});
  });
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceSetPowerManagementLimit(DeviceHandle handle, unsigned milliwatts) {
  return set(Call::set_power_limit, handle, true, WriteKind::power_limit, milliwatts);
}

SIM_NVML_ENTRY nvmlDeviceSetPowerManagementLimit_v2(DeviceHandle handle, PowerLimitV2* limit) {
  if (limit == nullptr) return set(Call::set_power_limit, handle, false, WriteKind::power_limit);
  const bool known = limit->version == PowerLimitV2{}.version;
  if (known && limit->scope == kScopeGpu) {
    return nvmlDeviceSetPowerManagementLimit(handle, limit->milliwatts);
  }
  return on_device(Call::set_power_limit, handle, true,
                   [&](const Device&) { return known ? kNotSupported : kArgumentVersionMismatch; });
}

SIM_NVML_ENTRY nvmlDeviceSetGpuLockedClocks(DeviceHandle handle, unsigned min, unsigned max) {
  return set(Call::set_gpu_clocks, handle, true, WriteKind::gpu_locked_clocks, min, max);
}

SIM_NVML_ENTRY nvmlDeviceResetGpuLockedClocks(DeviceHandle handle) {
  return set(Call::set_gpu_clocks, handle, true, WriteKind::gpu_locked_clocks_reset);
}

SIM_NVML_ENTRY nvmlDeviceSetMemoryLockedClocks(DeviceHandle handle, unsigned min, unsigned max) {
  return set(Call::set_memory_clocks, handle, true, WriteKind::memory_locked_clocks, min, max);
}

SIM_NVML_ENTRY nvmlDeviceResetMemoryLockedClocks(DeviceHandle handle) {
  return set(Call::set_memory_clocks, handle, true, WriteKind::memory_locked_clocks_reset);
}

SIM_NVML_ENTRY nvmlDeviceSetPersistenceMode(DeviceHandle handle, unsigned mode) {
  return set(Call::set_persistence_mode, handle, mode < kModes, WriteKind::persistence_mode, mode);
}

SIM_NVML_ENTRY nvmlDeviceSetComputeMode(DeviceHandle handle, unsigned mode) {
  return set(Call::set_compute_mode, handle, mode < kComputeModes, WriteKind::compute_mode, mode);
}

SIM_NVML_ENTRY nvmlDeviceSetEccMode(DeviceHandle handle, unsigned mode) {
  return set(Call::set_ecc_mode, handle, mode < kModes, WriteKind::ecc_mode, mode);
}

SIM_NVML_ENTRY nvmlDeviceClearEccErrorCounts(DeviceHandle handle, unsigned counter) {
  return set(Call::clear_ecc_counters, handle, counter <= kEccAggregate,
             WriteKind::clear_ecc_counters, counter);
}
