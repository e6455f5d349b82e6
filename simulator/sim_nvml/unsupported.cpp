// Functions that no simulated GPU supports, as no GPU of these models does under this driver, or
// none without MIG devices. They exist because a client may refuse a whole library for one missing
// name, or, as nvtop does, show no GPU at all.
#include "sim_nvml/device_call.h"

// All take the device first. Further arguments are not declared: the C calling convention lets a
// function ignore them.
#define SIM_NVML_UNSUPPORTED(name)                                                      \
  SIM_NVML_ENTRY name(gpuyard::nvml::DeviceHandle handle) {                             \
    return gpuyard::sim_nvml::on_device(                                                \
        gpuyard::sim::Call::any, handle, true,                                          \
        [](const gpuyard::sim_nvml::Device&) { return gpuyard::nvml::kNotSupported; }); \
  }

// A chip-to-chip link, and memory of the GPU as a NUMA node: Grace Hopper has them.
SIM_NVML_UNSUPPORTED(nvmlDeviceGetC2cModeInfoV)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetNumaNodeId)

// Windows.
SIM_NVML_UNSUPPORTED(nvmlDeviceGetDriverModel)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetDriverModel_v2)

// Boards before these.
SIM_NVML_UNSUPPORTED(nvmlDeviceGetAutoBoostedClocksEnabled)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetBridgeChipInfo)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetGpuOperationMode)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetNvLinkUtilizationCounter)

// MIG devices, where MIG is off.
SIM_NVML_UNSUPPORTED(nvmlDeviceGetAttributes)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetAttributes_v2)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetComputeInstanceId)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetGpuInstanceId)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetMigDeviceHandleByIndex)

// Not nvmlSystemGetConfComputeSettings and its like: clients take their presence for support.
