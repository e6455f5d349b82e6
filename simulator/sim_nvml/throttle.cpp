// Why clocks are where they are, and for how long they were held there.
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using sim::Call;
using sim_nvml::Device;

// What the simulated GPUs can show; a real one names its own set here too.
constexpr unsigned long long kReasons = sim::kReasonIdle | sim::kReasonApplicationClocks |
                                        sim::kReasonPowerCap | sim::kReasonHardwareSlowdown |
                                        sim::kReasonSoftwareThermal | sim::kReasonHardwareThermal;

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetCurrentClocksEventReasons(DeviceHandle handle,
                                                      unsigned long long* reasons) {
  return sim_nvml::read_one(Call::throttle_reasons, handle, reasons,
                            [](const Device& d) { return d.record.clock_reasons; });
}

// The same under its older name.
SIM_NVML_ENTRY nvmlDeviceGetCurrentClocksThrottleReasons(DeviceHandle handle,
                                                         unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksEventReasons(handle, reasons);
}

SIM_NVML_ENTRY nvmlDeviceGetSupportedClocksEventReasons(DeviceHandle handle,
                                                        unsigned long long* reasons) {
  return sim_nvml::read_one(Call::throttle_reasons, handle, reasons,
                            [](const Device&) { return kReasons; });
}

SIM_NVML_ENTRY nvmlDeviceGetSupportedClocksThrottleReasons(DeviceHandle handle,
                                                           unsigned long long* reasons) {
  return nvmlDeviceGetSupportedClocksEventReasons(handle, reasons);
}

// The other policies exist, and no simulated GPU is ever held back by one of them.
SIM_NVML_ENTRY nvmlDeviceGetViolationStatus(DeviceHandle handle, unsigned policy,
                                            ViolationTime* out) {
  return sim_nvml::on_device(
      Call::throttle_times, handle, out != nullptr && policy < kViolationKinds,
      [&](const Device& device) {
        if (policy != kViolationPower && policy != kViolationThermal) return kNotSupported;
        const sim::GpuRecord& record = device.record;
        *out = {.reference_us = sim_nvml::wall_clock_us(),
                .violation_ns = policy == kViolationPower
                                    ? record.power_cap_ns
                                    : record.software_thermal_ns + record.hardware_thermal_ns};
        return kSuccess;
      });
}
