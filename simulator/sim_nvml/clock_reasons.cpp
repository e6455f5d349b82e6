// The reasons for the current clocks, and how long each was in force.
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;

// The reasons that simulated GPUs can have; a real GPU also names only its own set here.
constexpr unsigned long long kReasons = sim::kReasonIdle | sim::kReasonApplicationClocks |
                                        sim::kReasonPowerCap | sim::kReasonHardwareSlowdown |
                                        sim::kReasonSoftwareThermal | sim::kReasonHardwareThermal;

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetCurrentClocksEventReasons(DeviceHandle handle,
                                                      unsigned long long* reasons) {
  return read_one(Call::throttle_reasons, handle, reasons, &sim::GpuRecord::clock_reasons);
}

// The same under its older name.
SIM_NVML_ENTRY nvmlDeviceGetCurrentClocksThrottleReasons(DeviceHandle handle,
                                                         unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksEventReasons(handle, reasons);
}

SIM_NVML_ENTRY nvmlDeviceGetSupportedClocksEventReasons(DeviceHandle handle,
                                                        unsigned long long* reasons) {
  return read_one(Call::throttle_reasons, handle, reasons, [](const Device&) { return kReasons; });
}

SIM_NVML_ENTRY nvmlDeviceGetSupportedClocksThrottleReasons(DeviceHandle handle,
                                                           unsigned long long* reasons) {
  return nvmlDeviceGetSupportedClocksEventReasons(handle, reasons);
}

// The other policies are valid, but never slow down a simulated GPU.
SIM_NVML_ENTRY nvmlDeviceGetViolationStatus(DeviceHandle handle, unsigned policy,
                                            ViolationTime* out) {
  return on_device(
      Call::throttle_times, handle, out != nullptr && policy < kViolationKinds,
      [&](const Device& device) {
        if (policy != kViolationPower && policy != kViolationThermal) return kNotSupported;
        const sim::GpuRecord& record = device.record;
        *out = {.reference_us = wall_clock_us(),
                .violation_ns = policy == kViolationPower
                                    ? record.power_cap_ns
                                    : record.software_thermal_ns + record.hardware_thermal_ns};
        return kSuccess;
      });
}
