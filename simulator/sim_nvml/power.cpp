// Power, its limits, and energy.
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;

// From Ampere on the reading is an average of about a second, except on GA100.
bool has_average_power_reading(const sim::Model& model) {
  constexpr unsigned kAmpere = 7;  // nvmlDeviceArchitecture_t
  const bool ga100 = model.compute_major == 8 && model.compute_minor == 0;
  return model.architecture >= kAmpere && !ga100;
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetPowerUsage(DeviceHandle handle, unsigned* milliwatts) {
  return read_one(Call::power_usage, handle, milliwatts, [](const Device& d) {
    return has_average_power_reading(d.model) ? d.record.power_average_mw : d.record.power_mw;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetPowerManagementLimit(DeviceHandle handle, unsigned* milliwatts) {
  return read_one(Call::power_limits, handle, milliwatts, &sim::GpuRecord::power_limit_mw);
}

SIM_NVML_ENTRY nvmlDeviceGetEnforcedPowerLimit(DeviceHandle handle, unsigned* milliwatts) {
  return nvmlDeviceGetPowerManagementLimit(handle, milliwatts);
}

SIM_NVML_ENTRY nvmlDeviceGetPowerManagementDefaultLimit(DeviceHandle handle, unsigned* milliwatts) {
  return read_one(Call::power_limits, handle, milliwatts, &sim::Model::power_limit_default_mw);
}

SIM_NVML_ENTRY nvmlDeviceGetPowerManagementLimitConstraints(DeviceHandle handle, unsigned* min,
                                                            unsigned* max) {
  return read_two(Call::power_limits, handle, min, max, [](const Device& d) {
    return std::optional(std::pair(d.model.power_limit_min_mw, d.model.power_limit_max_mw));
  });
}

SIM_NVML_ENTRY nvmlDeviceGetTotalEnergyConsumption(DeviceHandle handle,
                                                   unsigned long long* millijoules) {
  return read_one(Call::total_energy, handle, millijoules, &sim::GpuRecord::energy_mj);
}

// Whether the driver manages power at all: it does on every board since Kepler.
SIM_NVML_ENTRY nvmlDeviceGetPowerManagementMode(DeviceHandle handle, unsigned* mode) {
  return read_one(Call::power_limits, handle, mode, [](const Device&) { return 1; });
}
