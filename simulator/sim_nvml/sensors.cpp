// Memory, utilisation, temperature, and what an H100 does not have.
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using sim::Call;
using sim_nvml::Device;

constexpr unsigned kMemoryV2Version = MemoryV2{}.version;
constexpr unsigned kMemoryV2Bare = 2;  // one real client passes the number alone
constexpr unsigned kTemperatureV1Version = TemperatureV1{}.version;

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetMemoryInfo(DeviceHandle handle, MemoryV1* out) {
  return sim_nvml::on_device(Call::memory_info, handle, out != nullptr, [&](const Device& device) {
    out->total = device.model.memory_total_bytes;
    out->used = device.model.memory_reserved_bytes + device.record.memory_used_bytes;
    out->free = out->total - out->used;
    return kSuccess;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetMemoryInfo_v2(DeviceHandle handle, MemoryV2* out) {
  return sim_nvml::on_device(Call::memory_info, handle, out != nullptr, [&](const Device& device) {
    if (out->version != kMemoryV2Version && out->version != kMemoryV2Bare) {
      return kArgumentVersionMismatch;
    }
    out->total = device.model.memory_total_bytes;
    out->reserved = device.model.memory_reserved_bytes;
    out->used = device.record.memory_used_bytes;
    out->free = out->total - out->reserved - out->used;
    return kSuccess;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetUtilizationRates(DeviceHandle handle, Utilization* out) {
  return sim_nvml::on_device(Call::utilization_rates, handle, out != nullptr,
                             [&](const Device& device) {
                               out->gpu = device.record.gpu_utilization_percent;
                               out->memory = device.record.memory_utilization_percent;
                               return kSuccess;
                             });
}

SIM_NVML_ENTRY nvmlDeviceGetTemperature(DeviceHandle handle, unsigned sensor, unsigned* out) {
  return sim_nvml::read_one(Call::temperature, handle, sensor == kTemperatureGpu ? out : nullptr,
                            [](const Device& d) { return d.record.temperature_celsius; });
}

SIM_NVML_ENTRY nvmlDeviceGetTemperatureV(DeviceHandle handle, TemperatureV1* out) {
  return sim_nvml::on_device(Call::temperature, handle, out != nullptr, [&](const Device& device) {
    if (out->version != kTemperatureV1Version) return kArgumentVersionMismatch;
    if (out->sensor != kTemperatureGpu) return kInvalidArgument;
    out->celsius = static_cast<int>(device.record.temperature_celsius);
    return kSuccess;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetFanSpeed(DeviceHandle handle, unsigned* out) {
  return sim_nvml::on_device(Call::fan_speed, handle, out != nullptr,
                             [](const Device&) { return kNotSupported; });
}
