// Process lists. A world has no processes yet, so the lists are empty in all three layouts.
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;

// `count` says how many entries `infos` has room for; (0, null) only asks.
ReturnCode list_processes(DeviceHandle handle, unsigned* count, const void* infos) {
  const bool given = count != nullptr && (*count == 0 || infos != nullptr);
  return sim_nvml::on_device(sim::Call::processes, handle, given, [&](const sim_nvml::Device&) {
    *count = 0;
    return kSuccess;
  });
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetComputeRunningProcesses(DeviceHandle handle, unsigned* count,
                                                    void* infos) {
  return list_processes(handle, count, infos);
}

SIM_NVML_ENTRY nvmlDeviceGetComputeRunningProcesses_v2(DeviceHandle handle, unsigned* count,
                                                       void* infos) {
  return list_processes(handle, count, infos);
}

SIM_NVML_ENTRY nvmlDeviceGetComputeRunningProcesses_v3(DeviceHandle handle, unsigned* count,
                                                       void* infos) {
  return list_processes(handle, count, infos);
}

SIM_NVML_ENTRY nvmlDeviceGetGraphicsRunningProcesses(DeviceHandle handle, unsigned* count,
                                                     void* infos) {
  return list_processes(handle, count, infos);
}

SIM_NVML_ENTRY nvmlDeviceGetGraphicsRunningProcesses_v2(DeviceHandle handle, unsigned* count,
                                                        void* infos) {
  return list_processes(handle, count, infos);
}

SIM_NVML_ENTRY nvmlDeviceGetGraphicsRunningProcesses_v3(DeviceHandle handle, unsigned* count,
                                                        void* infos) {
  return list_processes(handle, count, infos);
}
