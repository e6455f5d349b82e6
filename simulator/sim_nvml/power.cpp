// Power, its limits, and energy.
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using sim::Call;
using sim_nvml::Device;

// From Ampere on the reading is an average of about a second, except on GA100.
bool averages_power(const sim::Model& model) {
  constexpr unsigned kAmpere = 7;  // nvmlDeviceArchitecture_t
  const bool ga100 = model.compute_major == 8 && model.compute_minor == 0;
  return model.architecture >= kAmpere && !ga100;
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetPowerUsage(DeviceHandle handle, unsigned* milliwatts) {
  return sim_nvml::read_one(Call::power_usage, handle, milliwatts, [](const Device& d) {
    return averages_power(d.model) ? d.record.power_average_mw : d.record.power_mw;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetPowerManagementLimit(DeviceHandle handle, unsigned* milliwatts) {
  return sim_nvml::read_one(Call::power_limits, handle, milliwatts,
                            [](const Device& d) { return d.record.power_limit_mw; });
}

SIM_NVML_ENTRY nvmlDeviceGetEnforcedPowerLimit(DeviceHandle handle, unsigned* milliwatts) {
  return nvmlDeviceGetPowerManagementLimit(handle, milliwatts);
}

SIM_NVML_ENTRY nvmlDeviceGetPowerManagementDefaultLimit(DeviceHandle handle, unsigned* milliwatts) {
  return sim_nvml::read_one(Call::power_limits, handle, milliwatts,
                            [](const Device& d) { return d.model.cap_default_mw; });
}

SIM_NVML_ENTRY nvmlDeviceGetPowerManagementLimitConstraints(DeviceHandle handle, unsigned* least,
                                                            unsigned* most) {
  return sim_nvml::on_device(Call::power_limits, handle, least != nullptr && most != nullptr,
                             [&](const Device& device) {
                               *least = device.model.cap_min_mw;
                               *most = device.model.cap_max_mw;
                               return kSuccess;
                             });
}

SIM_NVML_ENTRY nvmlDeviceGetTotalEnergyConsumption(DeviceHandle handle,
                                                   unsigned long long* millijoules) {
  return sim_nvml::read_one(Call::total_energy, handle, millijoules,
                            [](const Device& d) { return d.record.energy_mj; });
}

// Whether the driver manages power at all: it does on every board since Kepler.
SIM_NVML_ENTRY nvmlDeviceGetPowerManagementMode(DeviceHandle handle, unsigned* mode) {
  return sim_nvml::read_one(Call::power_limits, handle, mode, [](const Device&) { return 1; });
}
