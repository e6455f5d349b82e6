// Counting GPUs and finding one. A lost GPU is counted but cannot be found, as with a real driver;
// a GPU plugged in after initialisation does not exist yet.
#include "sim/pci_address.h"
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;

ReturnCode find(const OpenedDriver& driver, std::uint32_t index, DeviceHandle* out) {
  const std::uint32_t place = driver.place_of(index);
  return on_gpu(driver, place, sim::Call::handle, [&](const Device& device) {
    *out = handle_of(device.place);
    return kSuccess;
  });
}

// The first GPU whose identity matches, or not found.
template <class Matches>
ReturnCode find_by(const void* name, DeviceHandle* out, Matches&& matches) {
  const auto driver = session().driver();
  if (driver == nullptr) return kUninitialized;
  if (name == nullptr || out == nullptr) return kInvalidArgument;
  for (std::uint32_t index = 0; index < driver->gpu_count(); ++index) {
    const sim::Identity& identity = driver->world().identity(driver->place_of(index));
    if (matches(identity)) return find(*driver, index, out);
  }
  return kNotFound;
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetCount_v2(unsigned* out) {
  return on_driver(out != nullptr, [&](const OpenedDriver& driver) {
    *out = driver.gpu_count();
    return kSuccess;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetCount(unsigned* out) {
  return nvmlDeviceGetCount_v2(out);
}

SIM_NVML_ENTRY nvmlDeviceGetHandleByIndex_v2(unsigned index, DeviceHandle* out) {
  const auto driver = session().driver();
  if (driver == nullptr) return kUninitialized;
  if (out == nullptr || index >= driver->gpu_count()) return kInvalidArgument;
  return find(*driver, index, out);
}

SIM_NVML_ENTRY nvmlDeviceGetHandleByIndex(unsigned index, DeviceHandle* out) {
  return nvmlDeviceGetHandleByIndex_v2(index, out);
}

SIM_NVML_ENTRY nvmlDeviceGetHandleByUUID(const char* uuid, DeviceHandle* out) {
  return find_by(uuid, out, [&](const sim::Identity& identity) {
    return std::string_view(identity.uuid) == uuid;
  });
}

// GPUs of a model without serials cannot be found this way.
SIM_NVML_ENTRY nvmlDeviceGetHandleBySerial(const char* serial, DeviceHandle* out) {
  return find_by(serial, out, [&](const sim::Identity& identity) {
    return identity.serial[0] != '\0' && std::string_view(identity.serial) == serial;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetHandleByPciBusId_v2(const char* text, DeviceHandle* out) {
  const auto wanted = text != nullptr ? sim::parse_pci_address(text) : std::nullopt;
  return find_by(text, out, [&](const sim::Identity& identity) {
    return wanted == sim::PciAddress{identity.pci_domain, identity.pci_bus, identity.pci_device, 0};
  });
}

SIM_NVML_ENTRY nvmlDeviceGetHandleByPciBusId(const char* text, DeviceHandle* out) {
  return nvmlDeviceGetHandleByPciBusId_v2(text, out);
}

// Functions that no simulated GPU supports, because real GPUs of these models do not support them
// under this driver or without MIG devices. They exist because a client may refuse a whole library
// for one missing name, or, like nvtop, show no GPU at all. All take the device first. Further
// arguments are not declared: the C calling convention lets a function ignore them.
#define SIM_NVML_UNSUPPORTED(name)                                                      \
  SIM_NVML_ENTRY name(gpuyard::nvml::DeviceHandle handle) {                             \
    return gpuyard::sim_nvml::on_device(                                                \
        gpuyard::sim::Call::any, handle, true,                                          \
        [](const gpuyard::sim_nvml::Device&) { return gpuyard::nvml::kNotSupported; }); \
  }

// Only Grace Hopper has a chip-to-chip link, and GPU memory as a NUMA node.
SIM_NVML_UNSUPPORTED(nvmlDeviceGetC2cModeInfoV)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetNumaNodeId)

// Only Windows has these.
SIM_NVML_UNSUPPORTED(nvmlDeviceGetDriverModel)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetDriverModel_v2)

// Only older boards have these.
SIM_NVML_UNSUPPORTED(nvmlDeviceGetAutoBoostedClocksEnabled)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetBridgeChipInfo)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetGpuOperationMode)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetNvLinkUtilizationCounter)

// For MIG devices; MIG is off here.
SIM_NVML_UNSUPPORTED(nvmlDeviceGetAttributes)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetAttributes_v2)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetComputeInstanceId)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetGpuInstanceId)
SIM_NVML_UNSUPPORTED(nvmlDeviceGetMigDeviceHandleByIndex)

// nvmlSystemGetConfComputeSettings and similar functions are left out: clients take their presence
// for support.
