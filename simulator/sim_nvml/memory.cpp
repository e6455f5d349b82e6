// A GPU's memory, and BAR1, the window through which the host sees it.

#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;
using sim::MemoryRepair;

constexpr unsigned kMemoryV2Version = MemoryV2{}.version;
constexpr unsigned kMemoryV2Bare = 2;  // one real client passes only the number
constexpr unsigned kHopper = 9;        // nvmlDeviceArchitecture_t

// The bytes that the driver always maps for itself.
constexpr unsigned long long kBar1InUse = 2ULL << 20;

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetMemoryInfo(DeviceHandle handle, MemoryV1* out) {
  return on_device(Call::memory_info, handle, out != nullptr, [&](const Device& device) {
    out->total = device.model.memory_total_bytes;
    out->used = device.model.memory_reserved_bytes + device.record.memory_used_bytes;
    out->free = out->total - out->used;
    return kSuccess;
  });
}

// An unknown version is a mismatch and never "not supported": nvtop would then show host memory.
SIM_NVML_ENTRY nvmlDeviceGetMemoryInfo_v2(DeviceHandle handle, MemoryV2* out) {
  return on_device(Call::memory_info, handle, out != nullptr, [&](const Device& device) {
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

SIM_NVML_ENTRY nvmlDeviceGetBAR1MemoryInfo(DeviceHandle handle, Bar1Memory* out) {
  return on_device(Call::bar1_memory, handle, out != nullptr, [&](const Device& device) {
    out->total = device.model.bar1_bytes;
    out->used = kBar1InUse;
    out->free = out->total - out->used;
    return kSuccess;
  });
}

// Confidential computing is off, so all of the memory is unprotected. Clients that find this symbol
// expect nvmlDeviceGetRunningProcessDetailList too: a library has both or neither.
SIM_NVML_ENTRY nvmlDeviceGetConfComputeMemSizeInfo(DeviceHandle handle, ConfComputeMemory* out) {
  return on_device(Call::memory_info, handle, out != nullptr, [&](const Device& device) {
    if (device.model.architecture < kHopper) return kNotSupported;
    *out = {.protected_kib = 0, .unprotected_kib = device.model.memory_total_bytes / 1024};
    return kSuccess;
  });
}
