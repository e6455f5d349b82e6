// Functions that real clients look up and no simulated GPU supports yet. They exist because a
// client may refuse a whole library for one missing name, or, as nvtop does, show no GPU at all.
#include "sim_nvml/device_call.h"

namespace {

gpuyard::nvml::ReturnCode unsupported() {
  const bool open = gpuyard::sim_nvml::session().world() != nullptr;
  return open ? gpuyard::nvml::kNotSupported : gpuyard::nvml::kUninitialized;
}

}  // namespace

// Arguments are not declared: the C calling convention lets a function ignore them.
#define SIM_NVML_UNSUPPORTED(name) \
  SIM_NVML_ENTRY name() {          \
    return unsupported();          \
  }

// What nvtop, btop, gpustat, nvitop, all-smi and Zeus read.
SIM_NVML_UNSUPPORTED(nvmlDeviceGetBAR1MemoryInfo)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetC2cModeInfoV)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetClock)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetCurrPcieLinkGeneration)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetCurrPcieLinkWidth)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetDecoderUtilization)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetDriverModel)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetDriverModel_v2)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetEncoderUtilization)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetFieldValues)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetGspFirmwareMode)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetGspFirmwareVersion)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetMPSComputeRunningProcesses)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetMPSComputeRunningProcesses_v2)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetMPSComputeRunningProcesses_v3)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetMaxCustomerBoostClock)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetMaxMigDeviceCount)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetMaxPcieLinkGeneration)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetMaxPcieLinkWidth)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetNumaNodeId)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetNvLinkState)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetPcieThroughput)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetProcessUtilization)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetSupportedGraphicsClocks)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetSupportedMemoryClocks)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetTemperatureThreshold)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetTotalEccErrors)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetVbiosVersion)

// What gpuyard itself asks for beyond that. Not nvmlSystemGetConfComputeSettings and its like:
// clients take their presence for support.
SIM_NVML_UNSUPPORTED(nvmlDeviceGetFanSpeed_v2)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetMemoryErrorCounter)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetNumFans)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetPcieReplayCounter)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetRemappedRows)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetRetiredPages)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetRetiredPages_v2)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetTopologyCommonAncestor)
SIM_NVML_UNSUPPORTED(nvmlDeviceRegisterEvents)
SIM_NVML_UNSUPPORTED(nvmlEventSetCreate)
SIM_NVML_UNSUPPORTED(nvmlEventSetFree)
SIM_NVML_UNSUPPORTED(nvmlEventSetWait_v2)
SIM_NVML_UNSUPPORTED(nvmlGpmMetricsGet)
SIM_NVML_UNSUPPORTED(nvmlGpmQueryDeviceSupport)
SIM_NVML_UNSUPPORTED(nvmlGpmSampleAlloc)
SIM_NVML_UNSUPPORTED(nvmlGpmSampleFree)
SIM_NVML_UNSUPPORTED(nvmlGpmSampleGet)

// The setters of the control plane.
SIM_NVML_UNSUPPORTED(nvmlDeviceClearEccErrorCounts)
SIM_NVML_UNSUPPORTED(nvmlDeviceResetGpuLockedClocks)
SIM_NVML_UNSUPPORTED(nvmlDeviceResetMemoryLockedClocks)
SIM_NVML_UNSUPPORTED(nvmlDeviceSetComputeMode)
SIM_NVML_UNSUPPORTED(nvmlDeviceSetEccMode)
SIM_NVML_UNSUPPORTED(nvmlDeviceSetGpuLockedClocks)
SIM_NVML_UNSUPPORTED(nvmlDeviceSetMemoryLockedClocks)
SIM_NVML_UNSUPPORTED(nvmlDeviceSetPersistenceMode)
SIM_NVML_UNSUPPORTED(nvmlDeviceSetPowerManagementLimit)
