// Utilisation, temperature and fans.
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;

constexpr unsigned kTemperatureV1Version = TemperatureV1{}.version;
constexpr unsigned kThresholds = 8;           // nvmlTemperatureThresholds_t has this many
constexpr unsigned kVideoPeriodUs = 167'000;  // the driver averages the video engines over it
constexpr unsigned kMinFanSpeedPercent = 30;  // percent
constexpr unsigned kFanByTemperature = 0;     // NVML_FAN_POLICY_TEMPERATURE_CONTINOUS_SW

std::optional<unsigned> threshold_of(const sim::TemperatureLimits& limits, unsigned kind) {
  unsigned celsius = 0;  // 0: the model does not report it
  if (kind == kThresholdShutdown) celsius = limits.shutdown;
  if (kind == kThresholdSlowdown) celsius = limits.slowdown;
  if (kind == kThresholdMemoryMax) celsius = limits.memory_max;
  if (kind == kThresholdGpuMax) celsius = limits.gpu_max;
  return optional_if(celsius != 0, celsius);
}

template <class Read>
ReturnCode read_video(DeviceHandle handle, unsigned* percent, unsigned* period_us, Read&& read) {
  return read_two(Call::video_utilization, handle, percent, period_us, [&](const Device& d) {
    return std::optional(std::pair(read(d), kVideoPeriodUs));
  });
}

// Returns "not supported" on a model without fans, and rejects a fan number that the model lacks.
template <class Handler>
ReturnCode on_fan(DeviceHandle handle, unsigned fan, const void* out, Handler&& handler) {
  return on_device(Call::fan_speed, handle, out != nullptr, [&](const Device& device) {
    if (device.model.fans == 0) return kNotSupported;
    if (fan >= device.model.fans) return kInvalidArgument;
    return handler(device);
  });
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetUtilizationRates(DeviceHandle handle, Utilization* out) {
  return on_device(Call::utilization_rates, handle, out != nullptr, [&](const Device& device) {
    out->gpu = device.record.gpu_utilization_percent;
    out->memory = device.record.memory_utilization_percent;
    return kSuccess;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetEncoderUtilization(DeviceHandle handle, unsigned* percent,
                                               unsigned* period_us) {
  return read_video(handle, percent, period_us,
                    [](const Device& d) { return d.record.encoder_utilization_percent; });
}

SIM_NVML_ENTRY nvmlDeviceGetDecoderUtilization(DeviceHandle handle, unsigned* percent,
                                               unsigned* period_us) {
  return read_video(handle, percent, period_us,
                    [](const Device& d) { return d.record.decoder_utilization_percent; });
}

SIM_NVML_ENTRY nvmlDeviceGetTemperature(DeviceHandle handle, unsigned sensor, unsigned* out) {
  return read_one(Call::temperature, handle, sensor == kTemperatureGpu ? out : nullptr,
                  &sim::GpuRecord::temperature_celsius);
}

SIM_NVML_ENTRY nvmlDeviceGetTemperatureV(DeviceHandle handle, TemperatureV1* out) {
  return on_device(Call::temperature, handle, out != nullptr, [&](const Device& device) {
    if (out->version != kTemperatureV1Version) return kArgumentVersionMismatch;
    if (out->sensor != kTemperatureGpu) return kInvalidArgument;
    out->celsius = static_cast<int>(device.record.temperature_celsius);
    return kSuccess;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetTemperatureThreshold(DeviceHandle handle, unsigned kind,
                                                 unsigned* celsius) {
  return read_one(Call::temperature_threshold, handle, kind < kThresholds ? celsius : nullptr,
                  [&](const Device& d) { return threshold_of(d.model.temperatures, kind); });
}

SIM_NVML_ENTRY nvmlDeviceGetNumFans(DeviceHandle handle, unsigned* count) {
  return read_one(Call::fan_speed, handle, count,
                  [](const Device& d) { return optional_if(d.model.fans != 0, d.model.fans); });
}

SIM_NVML_ENTRY nvmlDeviceGetFanSpeed_v2(DeviceHandle handle, unsigned fan, unsigned* percent) {
  return on_fan(handle, fan, percent, [&](const Device& device) {
    return put_one(device.record.fan_percent[fan], percent);
  });
}

SIM_NVML_ENTRY nvmlDeviceGetFanSpeed(DeviceHandle handle, unsigned* percent) {
  return nvmlDeviceGetFanSpeed_v2(handle, 0, percent);
}

// The target is the actual speed: no simulated fan runs slower than it is told to.
SIM_NVML_ENTRY nvmlDeviceGetTargetFanSpeed(DeviceHandle handle, unsigned fan, unsigned* percent) {
  return nvmlDeviceGetFanSpeed_v2(handle, fan, percent);
}

SIM_NVML_ENTRY nvmlDeviceGetMinMaxFanSpeed(DeviceHandle handle, unsigned* min, unsigned* max) {
  return read_two(Call::fan_speed, handle, min, max, [](const Device& d) {
    return optional_if(d.model.fans != 0, std::pair(kMinFanSpeedPercent, 100U));
  });
}

SIM_NVML_ENTRY nvmlDeviceGetFanControlPolicy_v2(DeviceHandle handle, unsigned fan,
                                                unsigned* policy) {
  return on_fan(handle, fan, policy,
                [&](const Device&) { return put_one(kFanByTemperature, policy); });
}
